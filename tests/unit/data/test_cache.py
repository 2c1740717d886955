import json
import os
import time

import pytest

from trainwright.data import cache as cache_module
from trainwright.data.cache import ContentHashes, is_whole, look, write_identity


@pytest.fixture
def old_files(monkeypatch):
    """Take every file for one whose times can be trusted, however short a time ago it was written."""
    monkeypatch.setattr(cache_module, "SETTLED_NS", -1)


@pytest.fixture
def prepared(tmp_path):
    """Puts a prepared set in place as the builder does: ``prepared(request, "2026-01-02T03:04:05")``."""

    def put(request, made="2026-01-02T03:04:05"):
        looked = look(request, tmp_path / "cache")
        looked.folder.mkdir(parents=True)
        (looked.folder / "train.arrow").write_bytes(b"rows")
        write_identity(looked.folder, request, looked.parts, made)
        return looked.folder

    return put


def because(request, tmp_path):
    looked = look(request, tmp_path / "cache")
    return looked.hit, looked.because


def test_a_content_hash_is_remembered(tmp_path, old_files, monkeypatch):
    file = tmp_path / "a.csv"
    file.write_text("text")
    hashes = ContentHashes(tmp_path)
    digest = hashes.of(file)
    hashes.remember()
    assert digest == "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"  # sha256sum of "text"
    monkeypatch.setattr(cache_module.hashlib, "file_digest", lambda *read: pytest.fail("was read again"))
    assert ContentHashes(tmp_path).of(file) == digest


def test_a_file_rewritten_at_its_size_with_its_time_set_back_is_noticed(tmp_path, old_files):
    file = tmp_path / "a.csv"
    file.write_text("pos")
    before = file.stat()
    hashes = ContentHashes(tmp_path)
    old = hashes.of(file)
    hashes.remember()
    time.sleep(0.01)  # the change time comes in steps of a few milliseconds
    file.write_text("neg")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert ContentHashes(tmp_path).of(file) != old


def test_a_file_written_a_moment_ago_is_not_trusted_by_its_times(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("pos")
    hashes = ContentHashes(tmp_path)
    hashes.of(file)
    hashes.remember()
    assert not (tmp_path / "hashes.json").exists()


def test_damaged_memory_of_hashes_is_made_anew(tmp_path, old_files):
    (tmp_path / "hashes.json").write_text("{torn")
    file = tmp_path / "a.csv"
    file.write_text("text")
    hashes = ContentHashes(tmp_path)
    digest = hashes.of(file)
    hashes.remember()
    assert json.loads((tmp_path / "hashes.json").read_text())[str(file)]["sha256"] == digest


def test_hashes_of_other_processes_are_kept(tmp_path, old_files):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    one, two = ContentHashes(tmp_path), ContentHashes(tmp_path)
    one.of(tmp_path / "a")
    two.of(tmp_path / "b")
    one.remember()
    two.remember()
    assert set(json.loads((tmp_path / "hashes.json").read_text())) == {str(tmp_path / "a"), str(tmp_path / "b")}


def test_nothing_prepared_yet_is_said(tmp_path, write_table, request_data):
    file = write_table("a.csv", [("a", "x")])
    assert because(request_data(file), tmp_path) == (False, f"nothing was prepared from {file} yet")


def test_the_same_again_is_a_hit_with_its_date(tmp_path, write_table, request_data, prepared):
    request = request_data(write_table("a.csv", [("a", "x")]))
    prepared(request)
    assert because(request, tmp_path) == (
        True,
        "same content, tokenizer and options as prepared on 2026-01-02 03:04 UTC",
    )


def test_another_max_length_is_a_hit_too(tmp_path, write_table, request_data, prepared):
    file = write_table("a.csv", [("a", "x")])
    prepared(request_data(file, max_length=64))
    assert because(request_data(file, max_length=128), tmp_path)[0]


def test_the_seed_matters_only_where_rows_are_held_out(tmp_path, write_table, request_data, prepared):
    file = write_table("a.csv", [("a", "x")])
    prepared(request_data(file, seed=1))
    assert because(request_data(file, seed=2), tmp_path)[0]
    prepared(request_data(file, seed=1, validation="10%"), "2026-01-03T03:04:05")
    hit, why = because(request_data(file, seed=2, validation="10%"), tmp_path)
    assert not hit
    assert "learn.seed was 1 and is 2" in why


def test_a_changed_row_is_named_as_the_reason(tmp_path, write_table, request_data, prepared):
    file = write_table("a.csv", [("a", "x")])
    prepared(request_data(file))
    write_table("a.csv", [("b", "x")])
    assert because(request_data(file), tmp_path) == (False, f"since 2026-01-02 03:04 UTC: {file} has changed")


def test_another_tokenizer_is_named_as_the_reason(tmp_path, write_table, request_data, prepared, byte_pairs):
    file = write_table("a.csv", [("a", "x")])
    prepared(request_data(file))
    hit, why = because(request_data(file, model_folder=str(byte_pairs)), tmp_path)
    assert (hit, why) == (False, "since 2026-01-02 03:04 UTC: the tokenizer has changed")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"text": "label"}, "data.text was text and is label"),
        ({"labels": ("x", "y")}, "data.labels was None and is ['x', 'y']"),
        ({"empty_rows": "refuse"}, "data.empty_rows was drop and is refuse"),
        ({"validation": "20%"}, "data.validation is now 20%"),
    ],
)
def test_a_changed_option_is_named_as_the_reason(tmp_path, write_table, request_data, prepared, changes, reason):
    file = write_table("a.csv", [("a", "x")])
    prepared(request_data(file))
    hit, why = because(request_data(file, **changes), tmp_path)
    assert not hit
    assert reason in why


def test_the_newest_set_of_the_same_file_is_compared_with(tmp_path, write_table, request_data, prepared):
    file = write_table("a.csv", [("a", "x")])
    prepared(request_data(file, labels=("x",)), "2026-01-01T00:00:00")
    prepared(request_data(file, labels=("y",)), "2026-01-03T00:00:00")
    prepared(request_data(file, labels=("z",)), "2026-01-02T00:00:00")
    assert because(request_data(file), tmp_path)[1].startswith("since 2026-01-03 00:00 UTC: data.labels was ['y']")


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"row")])
def test_a_set_with_a_damaged_file_is_no_hit(tmp_path, write_table, request_data, prepared, damage):
    request = request_data(write_table("a.csv", [("a", "x")]))
    folder = prepared(request)
    assert is_whole(folder)
    damage(folder / "train.arrow")
    assert because(request, tmp_path) == (False, "a file of the prepared set is damaged or gone")

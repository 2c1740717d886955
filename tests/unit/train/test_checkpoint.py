import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.train import checkpoint

FILES = {
    "model.safetensors": b"weights" * 50,
    "optimizer.pt": b"moments" * 50,
    "scheduler.pt": b"rate",
    "rng_state.pth": b"random",
    "trainer_state.json": b"{}",
    "training_args.bin": b"a pickle",
}


def save(root, step):
    staged = checkpoint.Staged(root, step)
    for name, content in FILES.items():
        (staged.checkpoint / name).write_bytes(content)
    staged.publish()
    return root / f"checkpoint-{step}"


def test_a_published_checkpoint_is_whole_lists_its_files_and_leaves_no_staging(tmp_path):
    folder = save(tmp_path, 5)
    assert checkpoint.problem_of(folder) is None
    assert checkpoint.is_verified(folder)
    listed = json.loads((folder / "manifest.json").read_text())["files"]
    assert set(listed) == set(FILES) - {"training_args.bin"}
    # from `printf rate | sha256sum`
    sha256 = "c549779d79e5c8e9c9a6b6da5f1c5e21075eb9319852f858acb227ee855e4ef5"
    assert listed["scheduler.pt"] == {"bytes": 4, "sha256": sha256}
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-5"]


def test_a_pickle_that_may_hold_tokens_is_left_out(tmp_path):
    assert not (save(tmp_path, 5) / "training_args.bin").exists()


def test_what_is_staged_but_not_published_is_not_seen(tmp_path):
    save(tmp_path, 5)
    staged = checkpoint.Staged(tmp_path, 10)
    (staged.checkpoint / "model.safetensors").write_bytes(b"half")
    assert checkpoint.newest_whole(tmp_path) == (tmp_path / "checkpoint-5", [])


@pytest.mark.parametrize("name", sorted(set(FILES) - {"training_args.bin"}))
@pytest.mark.parametrize("damage", ["missing", "cut", "flipped", "empty"])
def test_damage_is_named_and_the_older_whole_checkpoint_is_taken(tmp_path, name, damage):
    older, newer = save(tmp_path, 5), save(tmp_path, 10)
    path = newer / name
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "flipped":
        content[0] ^= 1
        path.write_bytes(content)
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
    found, skipped = checkpoint.newest_whole(tmp_path)
    assert found == older
    assert [folder for folder, _reason in skipped] == [newer]
    assert name in skipped[0][1]


def test_a_damaged_manifest_is_a_problem_not_a_crash(tmp_path):
    folder = save(tmp_path, 5)
    (folder / "manifest.json").write_text('{"files": {"model.saf')
    assert "manifest.json" in checkpoint.problem_of(folder)


def test_a_checkpoint_of_transformers_passes_unverified_if_nothing_needed_is_missing(tmp_path):
    folder = save(tmp_path, 5)
    (folder / "manifest.json").unlink()
    assert checkpoint.problem_of(folder) is None
    assert not checkpoint.is_verified(folder)
    (folder / "scheduler.pt").unlink()
    assert checkpoint.problem_of(folder) == "scheduler.pt is missing"


def test_what_a_callback_adds_later_is_no_damage(tmp_path):
    folder = save(tmp_path, 5)
    (folder / "note.txt").write_text("mine")
    assert checkpoint.problem_of(folder) is None


def test_order_is_by_step_number_whatever_the_file_times_say(tmp_path):
    for step in (9, 10, 100):
        save(tmp_path, step)
    os.utime(tmp_path / "checkpoint-9", (2e9, 2e9))  # "in the future"
    assert [folder.name for folder in checkpoint.list_checkpoints(tmp_path)] == [
        "checkpoint-9",
        "checkpoint-10",
        "checkpoint-100",
    ]
    assert checkpoint.newest_whole(tmp_path)[0] == tmp_path / "checkpoint-100"


def test_rotation_keeps_the_newest_and_the_best_even_with_a_limit_of_one(tmp_path):
    for step in (5, 10, 15, 20):
        save(tmp_path, step)
    deleted = checkpoint.rotate(tmp_path, keep=1, best_step=5)
    assert {folder.name for folder in deleted} == {"checkpoint-10", "checkpoint-15"}


def test_saving_a_step_again_replaces_it(tmp_path):
    save(tmp_path, 5)
    folder = save(tmp_path, 5)
    assert checkpoint.problem_of(folder) is None


@given(st.sets(st.integers(1, 500), min_size=1, max_size=20), st.integers(0, 8), st.integers(1, 500))
def test_any_history_keeps_newest_best_and_the_number_asked_for(steps, keep, best):
    deleted = checkpoint.to_delete(list(steps), keep, best)
    kept = steps - deleted
    assert max(steps) in kept
    assert best in kept or best not in steps
    if keep == 0:
        assert kept == steps
    else:
        protected = {max(steps)} | ({best} & steps)
        assert len(kept) == min(len(steps), max(keep, len(protected)))
        assert all(one in protected or all(one > gone for gone in deleted) for one in kept)

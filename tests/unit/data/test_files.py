import pytest

from trainwright.data.cache import look
from trainwright.data.files import Files, place_of
from trainwright.data.prepare import prepare
from trainwright.data.rows import read_rows
from trainwright.data.sources import open_source, places_of
from trainwright.errors import DataError


@pytest.fixture
def parts(tmp_path):
    """Three files of one set, in three formats; lines 2-3, 1-2 and 2-3 of them are rows."""
    (tmp_path / "part-1.csv").write_text("text,label\na good film,pos\na bad film,neg\n")
    (tmp_path / "part-2.jsonl").write_text(
        '{"text": "very good", "label": "pos", "id": 1}\n{"text": "very bad", "label": "neg"}\n'
    )
    (tmp_path / "part-3.tsv").write_bytes("text\tlabel\n\n的确很好\tpos\n不好\tneg\n".encode("gb18030"))
    return tmp_path


def test_a_pattern_and_a_list_name_the_same_files(parts):
    found = place_of(str(parts / "part-*"))
    assert isinstance(found, Files)
    assert [path.name for path in found.paths] == ["part-1.csv", "part-2.jsonl", "part-3.tsv"]
    assert found == place_of([str(parts / "part-1.csv"), str(parts / "part-[23].*")])
    assert (found.name, str(found)) == ("part-1.csv and 2 more", f"{parts}/part-1.csv and 2 more")


def test_one_file_is_a_path_however_it_is_named(parts):
    assert place_of([str(parts / "part-1.csv")]) == place_of(str(parts / "*.csv")) == parts / "part-1.csv"


def test_a_file_whose_own_name_looks_like_a_pattern_is_itself(tmp_path):
    (tmp_path / "a[1].csv").write_text("text,label\n")
    (tmp_path / "a1.csv").write_text("text,label\n")
    assert place_of(str(tmp_path / "a[1].csv")) == tmp_path / "a[1].csv"


@pytest.mark.parametrize(
    ("names", "wrong"),
    [(["*.xlsx"], r"No file fits .*\*\.xlsx"), (["part-1.csv", "part-*"], r"part-1\.csv is named twice")],
)
def test_names_that_give_nothing_or_the_same_twice_are_refused(parts, names, wrong):
    with pytest.raises(DataError, match=wrong):
        place_of([str(parts / name) for name in names])


def test_rows_come_in_the_order_of_the_files_with_lines_counted_through(parts):
    source = open_source(place_of(str(parts / "part-*")))
    batches = list(source.batches(["text", "label"]))
    texts = [text for batch in batches for text in batch.columns["text"]]
    assert texts == ["a good film", "a bad film", "very good", "very bad", "的确很好", "不好"]
    assert [line for batch in batches for line in batch.lines] == [2, 3, 3 + 1, 3 + 2, 5 + 3, 5 + 4]
    noticed = source.noticed
    assert noticed.files == [(str(parts / name), line) for name, line in PLACES]
    assert (noticed.encoding, noticed.unused, noticed.blank_lines) == ("gb18030", ["id"], 1)


PLACES = [("part-1.csv", 1), ("part-2.jsonl", 4), ("part-3.tsv", 6)]


def test_a_fault_is_told_with_its_own_file_and_line(parts):
    (parts / "part-4.csv").write_text("text,label\nfine,pos\ntoo,many,fields\n")
    with pytest.raises(DataError, match=r"part-4\.csv: rows with more or fewer fields .*\(lines 3\)"):
        read_rows(place_of(str(parts / "part-*")), "text", "label", lambda texts: None)
    (parts / "part-4.csv").write_text("text,stars\nfine,pos\n")
    with pytest.raises(DataError, match=r"part-4\.csv has no column 'label'"):
        read_rows(place_of(str(parts / "part-*")), "text", "label", lambda texts: None)


def test_one_of_several_that_is_not_there_is_named(parts, request_data, tmp_path):
    with pytest.raises(DataError, match=r"There is no file .*part-9\.csv"):
        look(request_data((str(parts / "part-1.csv"), str(parts / "part-9.csv"))), tmp_path / "cache")


def test_several_files_are_prepared_as_one_and_found_again_until_one_changes(parts, request_data, tmp_path):
    asked = request_data(str(parts / "part-*"), test=str(parts / "part-2.jsonl"))
    quiet = lambda *told: None  # noqa: E731
    first = prepare(asked, tmp_path / "cache", quiet)
    assert (first.prepared.splits["train"].rows, first.prepared.splits["test"].rows) == (6, 2)
    assert first.prepared.splits["train"].source == "part-1.csv and 2 more"
    (told,) = [one.message for one in first.audit.findings if one.id == "data.several-files"]
    assert "part-1.csv from 1, part-2.jsonl from 4, part-3.tsv from 6" in told
    assert prepare(asked, tmp_path / "cache", quiet).prepared.cached
    as_list = request_data(tuple(str(parts / name) for name, _line in PLACES), test=str(parts / "part-2.jsonl"))
    assert prepare(as_list, tmp_path / "cache", quiet).prepared.cached  # the same files, named otherwise
    (parts / "part-3.tsv").write_text("text\tlabel\nother\tpos\n")
    assert not prepare(asked, tmp_path / "cache", quiet).prepared.cached


def test_a_share_can_be_held_out_of_several_files(parts, request_data):
    places = places_of(request_data(str(parts / "part-*"), validation="50%"))
    assert isinstance(places["train"], Files)
    assert places["validation"] == 0.5

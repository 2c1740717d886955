"""Every format gives the same rows back; and what is peculiar to each."""

import csv
import gzip
import io
import json

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from trainwright.data import jsonarray
from trainwright.data.cells import Boolean, Number
from trainwright.data.prepare import prepare
from trainwright.data.sources import open_source, source_files
from trainwright.errors import DataError

TEXTS = [
    "007",
    "3.50",
    "NA",
    "null",
    " ends with spaces ",
    'a "quoted" word',
    "a, b; c",
    "两行\n中文",
    "a\u2028b",
    "tab\tin",
]
ROWS = [(text, "pos" if place % 2 else "neg") for place, text in enumerate(TEXTS)]


def rows_of(path, columns=("text", "label"), lists=(), encoding="auto"):
    batches = list(open_source(path, encoding).batches(list(columns), lists))
    cells = [[cell for batch in batches for cell in batch.columns[name]] for name in columns]
    return list(zip(*cells, strict=True)), [line for batch in batches for line in batch.lines]


def as_csv(path, delimiter=","):
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter).writerows([("text", "label"), *ROWS])
    return written.getvalue().encode()


def as_json_lines(path):
    return "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS).encode()


def as_array(path, indent=None):
    return json.dumps([{"text": text, "label": label} for text, label in ROWS], indent=indent).encode()


def table():
    return pa.table({"text": TEXTS, "label": [label for _text, label in ROWS]})


def write_arrow(path, make=pa.ipc.new_file):
    with pa.OSFile(str(path), "wb") as file, make(file, table().schema) as writer:
        writer.write_table(table())


def write_workbook(path, rows=(("text", "label"), *ROWS), more=()):
    import openpyxl

    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for name in more:
        book.create_sheet(name)
    book.save(path)


WRITERS = {
    "a.csv": lambda path: path.write_bytes(as_csv(path)),
    "a.tsv": lambda path: path.write_bytes(as_csv(path, "\t")),
    "a.jsonl": lambda path: path.write_bytes(as_json_lines(path)),
    "lines.json": lambda path: path.write_bytes(as_json_lines(path)),
    "array.json": lambda path: path.write_bytes(b" \n" + as_array(path)),
    "indented.json": lambda path: path.write_bytes(as_array(path, 2)),
    "a.csv.gz": lambda path: path.write_bytes(gzip.compress(as_csv(path))),
    "a.TSV.GZ": lambda path: path.write_bytes(gzip.compress(as_csv(path, "\t"))),
    "a.json.gz": lambda path: path.write_bytes(gzip.compress(as_array(path, 1))),
    "a.csv.zst": lambda path: path.write_bytes(pa.compress(as_csv(path), codec="zstd", asbytes=True)),
    "a.jsonl.zst": lambda path: path.write_bytes(pa.compress(as_json_lines(path), codec="zstd", asbytes=True)),
    "a.parquet": lambda path: pq.write_table(table(), path),
    "a.arrow": write_arrow,
    "stream.arrow": lambda path: write_arrow(path, pa.ipc.new_stream),
    "a.feather": lambda path: feather.write_feather(table(), str(path)),
    "a.xlsx": write_workbook,
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_rows_come_out_of_every_format(tmp_path, name):
    WRITERS[name](tmp_path / name)
    found, lines = rows_of(tmp_path / name)
    assert found == ROWS
    assert lines == sorted(lines)
    assert not any(isinstance(text, (Number, Boolean)) for text, _label in found)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.zst", "a.jsonl.zst"])
def test_a_compressed_file_that_is_cut_short_is_refused(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match="cannot be read"):
        rows_of(path)


# -- JSON arrays ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [1, 7, 64, 10**6])
def test_an_array_is_read_the_same_in_pieces_of_any_size(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(jsonarray, "PIECE", piece)
    path = tmp_path / "a.json"
    path.write_text('\ufeff[\n {"text": "a\\n]}", "label": 1.50},\n\n {"label": "]", "text": "长",\n "x": [1, {}]}]\n ')
    assert rows_of(path) == ([("a\n]}", "1.50"), ("长", "]")], [2, 4])


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ('[{"text": "a", "label": "b"}\n {"text": 1}]', "line 2 is no JSON: a comma or the end"),
        ('[{"text": "a", "label": "b"},\n 7]', "line 2 is no JSON: an object is expected"),
        ('[{"text": "a", "label": "b"}', "line 1 is no JSON: a comma or the end"),
        ('[{"text": "a", "label": "b"}]\n\n[]', "line 3 is no JSON: more follows"),
        ('[{"text": "a", "label": "b"},\n{"text": "a', "line 2 is no JSON"),
    ],
)
def test_what_is_wrong_with_an_array_is_said_with_its_line(tmp_path, content, wrong):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=wrong):
        rows_of(tmp_path / "a.json")


# -- text -----------------------------------------------------------------------------------------------------------


def test_a_text_file_has_a_document_a_line(tmp_path):
    (tmp_path / "a.txt").write_bytes("one \r\n\n二\u2028\nthree".encode())
    source = open_source(tmp_path / "a.txt")
    assert source.columns() == ["text"]
    assert rows_of(tmp_path / "a.txt", ["text"]) == ([("one ",), ("二\u2028",), ("three",)], [1, 3, 4])


def test_a_folder_of_text_files_has_a_document_a_file_and_labels_by_sub_folder(tmp_path):
    for name, text in {"pos/b.txt": "good\nfilm", "pos/a.txt": "好", "neg/c.txt": "bad"}.items():
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_text(text, encoding="utf-8")
    (tmp_path / "set" / "README.txt").write_text("not a document")
    assert rows_of(tmp_path / "set")[0] == [("bad", "neg"), ("好", "pos"), ("good\nfilm", "pos")]
    assert len(source_files(tmp_path / "set")) == 3
    assert open_source(tmp_path / "set" / "pos").columns() == ["text"]
    assert rows_of(tmp_path / "set" / "pos", ["text"])[0] == [("好",), ("good\nfilm",)]


def test_a_renamed_folder_of_a_label_is_another_data_set(tmp_path, request_data):
    for label in ("pos", "neg"):
        (tmp_path / "set" / label).mkdir(parents=True)
        for number in range(4):
            (tmp_path / "set" / label / f"{number}.txt").write_text(f"film {label} {number}")
    first = prepare(request_data(tmp_path / "set"), tmp_path / "cache", lambda *told: None)
    assert first.prepared.labels == ["neg", "pos"]
    (tmp_path / "set" / "neg").rename(tmp_path / "set" / "bad")
    second = prepare(request_data(tmp_path / "set"), tmp_path / "cache", lambda *told: None)
    assert (second.prepared.cached, second.prepared.labels) == (False, ["bad", "pos"])


def test_a_folder_of_anything_else_is_refused(tmp_path):
    (tmp_path / "set" / "pos").mkdir(parents=True)
    with pytest.raises(DataError, match=r"without text files, and none that datasets wrote"):
        open_source(tmp_path / "set")


# -- spreadsheets ---------------------------------------------------------------------------------------------------


def test_a_workbook_keeps_kinds_and_row_numbers_and_tells_of_other_sheets(tmp_path):
    path = tmp_path / "a.xlsx"
    write_workbook(path, [("id", "text", "label"), (1, "007", 2), (), (2, 3.5, True), (3, None, "x"), ()], ["Notes"])
    source = open_source(path)
    (batch,) = source.batches(["text", "label"])
    assert (batch.lines, batch.columns["text"]) == ([2, 4, 5], ["007", "3.5", None])
    assert [type(cell) for cell in batch.columns["label"]] == [Number, Boolean, str]
    assert (source.noticed.unread, source.noticed.unused, source.noticed.blank_lines) == (["Notes"], ["id"], 1)


def test_a_value_without_a_name_above_it_is_refused(tmp_path):
    write_workbook(tmp_path / "a.xlsx", [("text", "label"), ("a", "b"), ("c", "d", "stray")])
    with pytest.raises(DataError, match="line 3: a value stands beyond the last column"):
        rows_of(tmp_path / "a.xlsx")


def test_what_is_no_workbook_is_refused(tmp_path):
    (tmp_path / "a.xlsx").write_text("text,label\na,b\n")
    with pytest.raises(DataError, match=r"a\.xlsx cannot be read"):
        open_source(tmp_path / "a.xlsx")


# -- CoNLL ----------------------------------------------------------------------------------------------------------

SENTENCES = [(["Berlin", "is", "#"], ["B-LOC", "O", "O"]), (["I"], ["O"])]


@pytest.mark.parametrize(
    "content",
    [
        "-DOCSTART- -X- O O\n\nBerlin NNP I-NP B-LOC\nis VBZ I-VP O\n# NN I-NP O\n\n\nI PRP I-NP O\n",
        "# sent_id = a\n# text = Berlin is #\n1\tBerlin\tB-LOC\t-\t-\n2\tis\tO\t-\t-\n3\t#\tO\t-\t-\n\n1\tI\tO\t-\t-",
        "Berlin\tB-LOC\r\nis\tO\r\n#\tO\r\n\r\nI\tO\r\n\r\n",
    ],
)
def test_tokens_and_tags_of_conll_columns_are_lists(tmp_path, content):
    path = tmp_path / "a.conll"
    path.write_bytes(content.encode())
    rows, _lines = rows_of(path, ("tokens", "tags"), ("tokens", "tags"))
    assert [(tokens.values(), tags.values()) for tokens, tags in rows] == SENTENCES


def test_the_line_of_a_sentence_is_that_of_its_first_token(tmp_path):
    (tmp_path / "a.bio").write_text("\n\nBerlin B-LOC\nis O\n\nI O\n")
    assert rows_of(tmp_path / "a.bio", ["tags"], ["tags"])[1] == [3, 6]


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("Berlin B-LOC\nis\n\nI O\n", r"more or fewer columns than the 2 of the first: 1 \(lines 2\)"),
        ("Berlin NNP\nis VBZ\n", "no column holds tags"),
    ],
)
def test_what_is_wrong_with_conll_columns_is_said(tmp_path, content, wrong):
    (tmp_path / "a.conll").write_text(content)
    with pytest.raises(DataError, match=wrong):
        open_source(tmp_path / "a.conll")


def test_without_its_library_a_workbook_is_refused_with_the_line_that_installs_it(tmp_path, monkeypatch):
    import sys

    write_workbook(tmp_path / "a.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataError, match=r"pip install 'trainwright\[xlsx\]'"):
        open_source(tmp_path / "a.xlsx")

import json

import pytest

from trainwright.errors import DataError
from trainwright.serve.table import Table

LABELS = ["=bad", "好"]
SURELY_BAD = {"predicted": "=bad", "confidence": 0.9, "probability": {"=bad": 0.9, "好": 0.1}}
NAMES = "predicted,confidence,probability_=bad,probability_好"
CELLS = "'=bad,0.900000,0.900000,0.100000"
KEYS = '"predicted": "=bad", "confidence": 0.9, "probability": {"=bad": 0.9, "好": 0.1}'


def columns(labels):
    return {"predicted": [], "confidence": [], "probability": labels}


def record(label):
    return {"predicted": label, "confidence": 1.0, "probability": {label: 1.0}}


def written(path, column="review"):
    """The whole file with the same prediction for every row."""
    table = Table(path, column)
    (_text, head), *rows = table.pieces()
    assert len(rows) == table.rows
    lines = [table.row_with_prediction(lines, SURELY_BAD) for _text, lines in rows]
    return table.head_with_names(head, columns(LABELS)) + "".join(lines)


def texts(path):
    return [text for text, _lines in Table(path, "review").pieces()][1:]


# What is written is the file as it stood, with N, a name, C, cells or K, keys put in where they are due.
KEPT = {
    "spaces that end a row": ("new.csv", "review,b@N\nx,1  @C\ny,\t@C\n", ["x", "y"]),
    "a line break between a key and its value": ("new.jsonl", '{"review":\r"x"@K}\n{"review": "y"@K}\n', ["x", "y"]),
    "plain": ("new.csv", "a,review@N\n1,the lamp@C\n2,x@C\n", ["the lamp", "x"]),
    "no row": ("new.csv", "a,review@N\n", []),
    "quotes, byte order mark, Windows line ends": ("new.csv", '\ufeffreview,b@N\r\n"x",1@C\r\ny,"2"@C\r\n', ["x", "y"]),
    "line breaks inside cells": ("new.csv", 'review,"b\nc"@N\n"x\ry",1@C\n"\n\nz",2@C\n', ["x\ry", "\n\nz"]),
    "semicolons": ("new.csv", "review;b@N\nthe lamp;1,5@C\n", ["the lamp"]),
    "quote marks that are text": ("new.tsv", 'review\tb@N\n"x\t1@C\nz" a\t2@C\nq\t3@C\n', ['"x', 'z" a', "q"]),
    "blank lines": ("new.csv", "review,b@N\n\nx,1@C\n\n\ny,2@C\n\n", ["x", "y"]),
    "rows without text": ("new.csv", "review,b@N\n,1@C\n  ,2@C\n", ["", "  "]),
    "no line end at the end": ("new.csv", "review,b@N\nx,1@C", ["x"]),
    "a cell that begins a formula": ("new.csv", "review@N\n=1+1@C\n", ["=1+1"]),
    "numbers as written": ("new.jsonl", '{"review": "x", "n": 1E2, "m": 0.10, "k": 1e400@K}\n', ["x"]),
    "spaces": ("new.jsonl", '\ufeff\n {"n":1 ,"review":"\\u00e9" @K} \r\n\n{"review": null@K}', ["é", ""]),
    "separators inside text": ("new.jsonl", '{"review": "a\u2028b\x85c"@K}\n', ["a\u2028b\x85c"]),
    "texts that are none": ("new.jsonl", '{"review": 1.50@K}\n{"review": true@K}\n', ["1.50", "true"]),
}


@pytest.mark.parametrize("case", sorted(KEPT))
def test_what_stood_in_the_file_stays_byte_for_byte(tmp_path, case):
    name, marked, expected_texts = KEPT[case]
    path = tmp_path / name
    path.write_bytes(marked.replace("@N", "").replace("@C", "").replace("@K", "").encode())
    delimiter = {"semicolons": ";", "quote marks that are text": "\t"}.get(case, ",")
    names, cells = (f"{delimiter}{added.replace(',', delimiter)}" for added in (NAMES, CELLS))
    assert written(path) == marked.replace("@N", names).replace("@C", cells).replace("@K", f", {KEYS}")
    assert texts(path) == expected_texts


def test_added_cells_are_quoted_where_they_must_be(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("review\nx\n")
    table = Table(path, "review")
    assert table.head_with_names("review\n", columns(["a,b"])) == 'review,predicted,confidence,"probability_a,b"\n'
    assert table.row_with_prediction("x\n", record('a"b')) == 'x,"a""b",1.000000,1.000000\n'


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r"])
def test_a_label_that_begins_a_formula_is_disarmed(tmp_path, sign):
    path = tmp_path / "new.csv"
    path.write_text("review\nx\n")
    label = f"{sign}1"
    assert f"'{label}" in Table(path, "review").row_with_prediction("x\n", record(label))


def test_rows_of_json_are_json_again(tmp_path):
    path = tmp_path / "new.jsonl"
    path.write_text('{"review": "x", "more": {"n": [1, {}]}}\n')
    expected = {"review": "x", "more": {"n": [1, {}]}, "predicted": "=bad", "confidence": 0.9}
    assert json.loads(written(path)) == {**expected, "probability": {"=bad": 0.9, "好": 0.1}}


BROKEN = {
    "a column that is not there": ("new.csv", "text,b\nx,1\n", "no column 'review'.*'text', 'b'"),
    "a near name": ("new.csv", "Reviews,b\nx,1\n", "Did you mean 'Reviews'"),
    "two columns of the name": ("new.csv", "review,review\nx,1\n", "several columns called 'review'"),
    "a column that is taken": ("new.csv", "review,predicted\nx,y\n", "already has.*predicted"),
    "a probability that is taken": ("new.csv", "review,probability_好\nx,y\n", "already has.*probability_好"),
    "a row with too few cells": ("new.csv", "review,b\nx,1\nonly\n", r"fields.*lines 3\b"),
    "a quote that is never closed": ("new.csv", 'review,b\nx,1\n"so,2\n', "line 3.*never closed"),
    "a line that is no JSON": ("new.jsonl", '{"review": "a"}\n{"review": \n', "line 2 is no JSON"),
    "a line without the key": ("new.jsonl", '{"review": "a"}\n{"text": "a"}\n', r"without 'review'.*lines 2\b"),
    "no line with the key": ("new.jsonl", '{"text": "a"}\n', "no column 'review'"),
    "a key that is taken": ("new.jsonl", '{"review": "a", "confidence": 1}\n', "already has.*confidence"),
    "a list as text": ("new.jsonl", '{"review": ["a"]}\n', "line 1.*is a list"),
    "an empty file": ("new.csv", "", "is empty"),
    "blank lines only": ("new.jsonl", "\n\n", "has no rows"),
    "another format": ("new.xlsx", "x", "none of CSV"),
}


@pytest.mark.parametrize("case", sorted(BROKEN))
def test_a_broken_file_is_named_with_its_line(tmp_path, case):
    name, text, expected = BROKEN[case]
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=expected):
        written(tmp_path / name)


def test_bytes_that_are_not_utf_8_are_named(tmp_path):
    (tmp_path / "new.csv").write_bytes(b"review,b\nx\xff,1\n")
    with pytest.raises(DataError, match="line 2: byte 0xff"):
        written(tmp_path / "new.csv")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="no file"):
        Table(tmp_path / "new.csv", "review")


def test_a_file_in_another_encoding_is_written_in_it_again(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,id\n这家店的服务很好,1\n".encode("gb18030"))
    table = Table(path, "text")
    assert [text for text, _lines in table.pieces()] == ["", "这家店的服务很好"]
    assert "".join(lines for _text, lines in table.pieces()).encode("gb18030") == path.read_bytes()
    assert table.encoding_with(["好", "差"]) == "gb18030"


def test_labels_that_the_encoding_of_the_file_lacks_are_written_in_utf8(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text\nà la carte, très déçu\n".encode("latin-1").replace(b",", b" "))
    assert Table(path, "text").encoding_with(["好"]) == "utf-8"


def test_an_array_is_refused_since_its_rows_have_no_lines(tmp_path):
    (tmp_path / "a.json").write_text('[{"text": "a"}]')
    with pytest.raises(DataError, match=r"is one JSON array.*Save it as JSON lines"):
        Table(tmp_path / "a.json", "text")

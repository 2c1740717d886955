import json
import random

import pytest

from trainwright.data.cells import Number
from trainwright.data.rows import read_rows
from trainwright.data.sources import open_source
from trainwright.errors import DataError


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path, columns=("text", "label")):
    source = open_source(path)
    batches = list(source.batches(list(columns)))
    return {name: [cell for batch in batches for cell in batch.columns[name]] for name in columns}, source.noticed


def test_numbers_keep_their_digits(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": 3.50, "label": 1}\n{"text": "007", "label": 12345678901234567890}\n')
    cells, _noticed = read(path)
    assert cells == {"text": ["3.50", "007"], "label": ["1", "12345678901234567890"]}
    assert [type(cell) for cell in cells["text"]] == [Number, str]


def test_a_byte_order_mark_and_blank_lines_are_no_rows(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes('\ufeff{"text": "你好", "label": "a"}\n\n{"text": "b", "label": "a"}\n'.encode())
    cells, noticed = read(path)
    assert cells["text"] == ["你好", "b"]
    assert noticed.blank_lines == 1


def test_a_text_of_12_megabytes_is_read_whole(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"text": "长" * 4_000_000, "label": "a"}])
    assert len(read(path)[0]["text"][0]) == 4_000_000


def test_extra_keys_are_left_out_and_noticed(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"text": "a", "label": "x"}, {"id": [1], "text": "b", "label": "y"}])
    cells, noticed = read(path)
    assert cells["text"] == ["a", "b"]
    assert noticed.unused == ["id"]


def refusal_of(path):
    with pytest.raises(DataError) as caught:
        read_rows(path, "text", "label", keep=lambda texts: None)
    return str(caught.value)


@pytest.mark.parametrize("padding", [0, 60_000])  # a few lines, and more than 20 MB
def test_rows_without_a_label_are_refused_with_their_lines_whatever_the_size(tmp_path, padding):
    rows = [{"text": "x" * 380, "label": "a"}] * padding + [{"text": "b", "label": "b"}, {"text": "c"}, {"text": "d"}]
    path = write(tmp_path / "a.jsonl", rows)
    assert padding == 0 or path.stat().st_size > 20e6
    lines = f"{padding + 2}, {padding + 3}"
    assert f"rows without 'label': 2 (lines {lines})" in refusal_of(path)


@pytest.mark.parametrize("padding", [0, 60_000])
def test_labels_of_two_kinds_are_refused_with_an_example_of_each(tmp_path, padding):
    rows = [{"text": "x" * 380, "label": "a"}] * padding + [{"text": "b", "label": "pos"}, {"text": "c", "label": 0}]
    message = refusal_of(write(tmp_path / "a.jsonl", rows))
    first = "'a' in line 1" if padding else "'pos' in line 1"
    assert f"{first} is text, '0' in line {padding + 2} is a number" in message


def test_the_verdict_does_not_depend_on_the_order_of_rows(tmp_path):
    rows = [{"text": str(n), "label": "a"} for n in range(5)] + [{"text": "no label"}, {"text": "n", "label": None}]
    for seed in range(8):
        random.Random(seed).shuffle(rows)
        assert "rows without" in refusal_of(write(tmp_path / "a.jsonl", rows))


def test_a_bad_line_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": "x"}\n{"text": "b", "label": \n')
    with pytest.raises(DataError, match=r"a\.jsonl, line 2 is no JSON"):
        read(path)


def test_a_list_of_objects_in_one_line_is_refused_with_what_is_expected(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('[{"text": "a", "label": "x"}]\n')
    with pytest.raises(DataError, match=r"line 1 is JSON, but no object\. Each line must be an object"):
        read(path)


def test_a_list_as_text_is_refused(tmp_path):
    with pytest.raises(DataError, match="line 1: 'text' is a list"):
        read(write(tmp_path / "a.jsonl", [{"text": ["a"], "label": "x"}]))


def test_half_a_surrogate_pair_is_refused_with_its_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "ok", "label": "x"}\n{"text": "\\ud83d", "label": "x"}\n')
    assert "line 2: the text has half a surrogate pair (U+D83D)" in refusal_of(path)


def test_a_wrong_byte_in_row_900_is_named(tmp_path):
    line = b'{"text": "a", "label": "x"}\n'
    path = tmp_path / "a.jsonl"
    path.write_bytes(line * 899 + b'{"text": "\xff", "label": "x"}\n' + line)
    with pytest.raises(DataError, match=f"line 900: byte 0xff at offset {899 * len(line) + 10} is not UTF-8"):
        read(path)


def test_lists_are_read_where_they_may_be_and_keep_their_values_as_text(tmp_path):
    path = tmp_path / "tags.jsonl"
    path.write_text(
        '{"text": "a", "tags": ["sad, really", 0, 1.50, "\u00e9"]}\n{"text": "b", "tags": []}\n', encoding="utf-8"
    )
    (batch,) = open_source(path).batches(["text", "tags"], lists=["tags"])
    assert [cell.values() for cell in batch.columns["tags"]] == [["sad, really", "0", "1.50", "\u00e9"], []]

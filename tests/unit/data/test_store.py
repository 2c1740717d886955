import pickle
import random

import numpy as np
import pyarrow as pa
import pytest

from trainwright.data.store import TEXT_SCHEMA, TEXTS_KEY, TOKEN_SCHEMA, ArrowWriter, TextRows, TokenRows
from trainwright.records import Prepared, Split

CONTENT = [[5, 6, 7], [], [8], [9, 10, 11, 12], [13, 14]]
TEXTS = ["five six seven", "", "007", "nine\nand more", "两个"]


def prepared(folder, max_length, prefix=(101,), suffix=(102,)):
    rows = len(CONTENT)
    split = Split("train", rows, 0, "train.arrow", "a.csv")
    return split, Prepared(
        folder=str(folder),
        key="k",
        cached=False,
        because="",
        splits={"train": split},
        labels=["a", "b"],
        max_length=max_length,
        prefix=list(prefix),
        suffix=list(suffix),
        pad_id=0,
        lengths={},
        label_rows={},
    )


@pytest.fixture
def stored(tmp_path):
    """Five rows in batches of two; their texts in reverse order in batches of three."""
    with ArrowWriter(tmp_path / "texts.arrow", TEXT_SCHEMA) as writer:
        backwards = TEXTS[::-1]
        writer.write(backwards[:3])
        writer.write(backwards[3:])
    with ArrowWriter(tmp_path / "train.arrow", TOKEN_SCHEMA.with_metadata({TEXTS_KEY: "texts.arrow"})) as writer:
        for start in range(0, 5, 2):
            places = range(start, min(5, start + 2))
            labels, lines, rows = [n % 2 for n in places], [n + 2 for n in places], [4 - n for n in places]
            writer.write([CONTENT[n] for n in places], labels, lines, rows)
    return tmp_path


def test_rows_are_truncated_and_surrounded_as_they_are_read(stored):
    rows = TokenRows(stored, *prepared(stored, max_length=5))
    assert len(rows) == 5
    assert [rows[n]["input_ids"] for n in range(5)] == [
        [101, 5, 6, 7, 102],
        [101, 102],
        [101, 8, 102],
        [101, 9, 10, 11, 102],
        [101, 13, 14, 102],
    ]
    assert [rows[n]["labels"] for n in range(5)] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("max_length", [3, 5, 100])
@pytest.mark.parametrize(("prefix", "suffix"), [((101,), (102,)), ((), ()), ((1, 2), ())])
def test_many_rows_at_once_are_the_rows_one_by_one(stored, max_length, prefix, suffix):
    rows = TokenRows(stored, *prepared(stored, max_length + len(prefix) + len(suffix), prefix, suffix))
    asked = [4, 0, 3, 1, 2, 0]
    found = rows.__getitems__(asked)
    assert [(row["input_ids"].tolist(), row["labels"]) for row in found] == [
        (rows[place]["input_ids"], rows[place]["labels"]) for place in asked
    ]
    assert len({id(row["input_ids"].base) for row in found}) == 1  # views of one array
    assert rows.__getitems__([]) == []


@pytest.mark.parametrize("max_length", [3, 4, 5, 6, 100])
def test_lengths_are_those_of_the_rows(stored, max_length):
    rows = TokenRows(stored, *prepared(stored, max_length))
    assert rows.lengths.dtype == np.int32
    assert rows.lengths.tolist() == [len(rows[n]["input_ids"]) for n in range(5)]
    assert rows.lengths.max() == min(max_length, 6)


def test_lines_labels_and_texts_belong_to_their_rows(stored):
    rows = TokenRows(stored, *prepared(stored, 10))
    assert rows.lines.tolist() == [2, 3, 4, 5, 6]
    assert rows.labels.tolist() == [0, 1, 0, 1, 0]
    assert [rows.text(n) for n in range(5)] == TEXTS


def test_places_count_from_the_end_and_stop_at_the_ends(stored):
    rows = TokenRows(stored, *prepared(stored, 10))
    assert rows[-1] == rows[4]
    for place in (5, -6):
        with pytest.raises(IndexError):
            rows[place]


def test_a_copy_for_another_process_carries_no_data(stored):
    rows = TokenRows(stored, *prepared(stored, 10))
    rows[0], rows.lengths, rows.text(0)
    carried = pickle.dumps(rows)
    assert len(carried) < 2000
    copy = pickle.loads(carried)
    assert [copy[n] for n in range(5)] == [rows[n] for n in range(5)]


def test_token_ids_are_read_from_the_map_without_a_copy(stored):
    rows = TokenRows(stored, *prepared(stored, 10))
    before = pa.total_allocated_bytes()
    values, _offsets = rows._flat[0]
    assert not values.flags.owndata
    assert pa.total_allocated_bytes() == before


def test_datasets_opens_the_files_as_they_are(stored):
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_file(str(stored / "train.arrow"))
    assert table["ids"][:] == CONTENT
    assert table["line"][:] == [2, 3, 4, 5, 6]
    assert datasets.Dataset.from_file(str(stored / "texts.arrow"))["text"][:] == TEXTS[::-1]


def test_texts_are_taken_across_batches(tmp_path):
    texts = [f"text {n}" for n in range(1000)]
    with ArrowWriter(tmp_path / "texts.arrow", TEXT_SCHEMA) as writer:
        for start in range(0, 1000, 70):
            writer.write(texts[start : start + 70])
    rows = TextRows(tmp_path / "texts.arrow")
    chosen = np.array(sorted(random.Random(0).sample(range(1000), 200)))
    assert len(rows) == 1000
    assert rows.take(chosen) == [texts[n] for n in chosen]
    assert rows.take(chosen[:0]) == []
    assert [rows[n] for n in (0, 69, 70, 999)] == [texts[n] for n in (0, 69, 70, 999)]

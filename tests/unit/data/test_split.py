import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.data.split import hold_out
from trainwright.errors import DataError


def texts(*numbers):
    return np.array(numbers, dtype=np.uint64)


def held(hashes, labels, share=0.1, seed=42, purpose="validation"):
    return hold_out(hashes, np.asarray(labels, dtype=np.int32), np.ones(len(hashes), bool), share, seed, purpose)


def test_each_class_gives_its_share():
    hashes = np.arange(1000, dtype=np.uint64)
    labels = np.array([0] * 700 + [1] * 200 + [2] * 100)
    taken = held(hashes, labels)
    assert np.bincount(labels[taken]).tolist() == [70, 20, 10]


def test_the_total_is_met_where_the_shares_of_classes_are_no_whole_numbers():
    labels = np.array([0] * 15 + [1] * 15 + [2] * 10)  # 1.5 + 1.5 + 1 rows
    taken = held(np.arange(40, dtype=np.uint64), labels)
    assert taken.sum() == 4
    assert np.bincount(labels[taken]).tolist() in ([2, 1, 1], [1, 2, 1])


def test_equal_texts_stay_on_one_side():
    hashes = np.repeat(np.arange(200, dtype=np.uint64), 3)
    taken = held(hashes, np.repeat(np.arange(200) % 2, 3))
    assert set(hashes[taken]).isdisjoint(hashes[~taken])
    assert taken.sum() == 60


def test_another_seed_or_purpose_draws_others():
    hashes, labels = np.arange(1000, dtype=np.uint64), np.arange(1000) % 2
    draws = [held(hashes, labels), held(hashes, labels, seed=43), held(hashes, labels, purpose="test")]
    for one, two in [(0, 1), (0, 2), (1, 2)]:
        assert 0 < (draws[one] & draws[two]).sum() < 30  # by chance 10 of 100


def test_the_draw_is_even_over_the_file():
    taken = held(np.arange(100_000, dtype=np.uint64), np.zeros(100_000, int))
    per_tenth = taken.reshape(10, -1).sum(axis=1)
    assert abs(per_tenth - 1000).max() < 5 * np.sqrt(1000 * 0.9)


def test_a_text_keeps_its_side_when_other_rows_come():
    before, after = np.arange(1000, dtype=np.uint64), np.arange(1010, dtype=np.uint64)
    old = held(before, np.zeros(1000, int))
    new = held(after, np.zeros(1010, int))[:1000]
    assert (old != new).sum() <= 4


def test_rows_that_are_not_free_are_not_held_out():
    free = np.arange(100) >= 50
    labels = np.zeros(100, np.int32)
    taken = hold_out(np.arange(100, dtype=np.uint64), labels, free, 0.2, 1, "validation")
    assert taken.sum() == 10
    assert not taken[:50].any()


def test_a_class_that_only_stands_in_contradicting_copies_stays_in_training():
    hashes = texts(*range(20), 99, 99, 99)
    labels = [0] * 20 + [0, 0, 1]
    for seed in range(50):
        assert not held(hashes, labels, share=0.5, seed=seed)[20:].any()


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4)), min_size=2, max_size=80),
    share=st.floats(0.01, 0.9),
    seed=st.integers(0, 2**40),
)
def test_whatever_the_rows_every_class_stays_in_training_and_copies_together(rows, share, seed):
    hashes, labels = texts(*(text for text, _label in rows)), np.array([label for _text, label in rows])
    try:
        taken = held(hashes, labels, share, seed)
    except DataError:
        return
    assert set(labels[~taken]) == set(labels)
    assert set(hashes[taken]).isdisjoint(hashes[~taken])
    assert taken.sum() <= round(len(rows) * share) + 1


def test_too_few_rows_for_a_share_are_refused():
    with pytest.raises(DataError, match=r"10\.0% of 3 rows leaves no row for validation"):
        held(texts(1, 2, 3), [0, 1, 1])


def test_every_process_draws_the_same():
    code = (
        "import numpy as np\n"
        "from trainwright.data.split import hold_out\n"
        "rows = np.arange(50, dtype=np.uint64)\n"
        "print(np.flatnonzero(hold_out(rows, (rows % 2).astype(np.int32), rows >= 0, 0.1, 7, 'test')).tolist())\n"
    )
    drawn = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    rows = np.arange(50, dtype=np.uint64)
    here = np.flatnonzero(held(rows, rows % 2, seed=7, purpose="test")).tolist()
    assert drawn == {f"{here}\n".encode()}

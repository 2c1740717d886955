import numpy as np
import pytest

from trainwright.data.lengths import check_max_length, histogram_of, max_length_for, percentiles, truncation
from trainwright.errors import ModelError


def test_percentiles_are_lengths_that_the_share_of_rows_does_not_exceed():
    lengths = np.arange(1, 101)  # 1 to 100, one row each
    assert percentiles(histogram_of(lengths)) == {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
    assert percentiles([[7, 1]]) == {"p50": 7, "p90": 7, "p95": 7, "p99": 7}
    assert percentiles([]) == {"p50": None, "p90": None, "p95": None, "p99": None}


def test_what_truncation_removes_is_counted_without_special_tokens():
    # 10 texts of 100 tokens with 2 special ones, cut to 8: 6 tokens of each stay
    cut = truncation([[102, 10]], max_length=8, specials=2)
    assert cut == {"max_length": 8, "rows": 10, "rows_share": 1.0, "tokens": 940, "tokens_share": 0.94}


def test_truncation_removes_nothing_from_rows_that_fit():
    assert truncation([[8, 3], [9, 1]], 8, 2)["rows"] == 1
    assert truncation([[8, 3]], 8, 2)["tokens_share"] == 0.0
    assert truncation([], 8, 2)["rows_share"] == 0.0


@pytest.mark.parametrize(
    ("p99", "allowed", "chosen", "reason"),
    [
        (57, 512, 64, "99% of the training rows have at most 57 tokens"),
        (64, None, 64, "99% of the training rows have at most 64 tokens"),
        (3, 512, 16, "99% of the training rows have at most 3 tokens"),
        (900, 512, 512, "but the model allows 512"),
        (100, 32, 32, "but the model allows 32"),
        (900, None, 512, "more than 512 only if asked for"),
        (900, 8192, 512, "more than 512 only if asked for"),
        (9, 10, 10, "but the model allows 10"),
    ],
)
def test_an_automatic_length_holds_most_rows_within_the_limits(request_data, p99, allowed, chosen, reason):
    choice = max_length_for(request_data("a.csv", model_max_length=allowed), [[p99, 100]], specials=2)
    assert (choice.value, choice.origin) == (chosen, "chosen")
    assert reason in choice.because


def test_the_length_asked_for_is_taken(request_data):
    assert max_length_for(request_data("a.csv", max_length=40), [[9, 1]], specials=2).value == 40


def test_a_length_beyond_the_position_table_is_refused_with_both_numbers(request_data):
    with pytest.raises(ModelError, match="512 tokens are requested, but the model allows 128"):
        check_max_length(request_data("a.csv", max_length=512, model_max_length=128))
    check_max_length(request_data("a.csv", max_length=128, model_max_length=128))
    check_max_length(request_data("a.csv", max_length=4096, model_max_length=None))


def test_a_length_without_room_for_text_is_refused(request_data):
    with pytest.raises(ModelError, match="max_length 2 leaves no room"):
        max_length_for(request_data("a.csv", max_length=2), [[9, 1]], specials=2)

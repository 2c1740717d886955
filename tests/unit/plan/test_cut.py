from hypothesis import given
from hypothesis import strategies as st

from trainwright.plan.cut import cut_by_tokens, padded_tokens


def test_rows_of_like_length_share_a_micro_batch_and_the_longest_come_first():
    # longest 10 -> two of them fill 20; then 4,4,3 -> 5 x 4 fits 20, so they go together
    assert cut_by_tokens([4, 10, 3, 10, 4], budget=20) == [[1, 3], [0, 4, 2]]


def test_a_row_longer_than_the_budget_gets_a_micro_batch_of_its_own():
    assert cut_by_tokens([50, 3], budget=8) == [[0], [1]]


def test_padded_tokens_counts_each_micro_batch_at_its_longest_row():
    assert padded_tokens([4, 10, 3, 10, 4], [[1, 3], [0, 4, 2]]) == 2 * 10 + 3 * 4


@given(st.lists(st.integers(1, 500), min_size=1, max_size=80), st.integers(1, 3000))
def test_every_row_comes_once_and_the_budget_holds_unless_a_single_row_breaks_it(lengths, budget):
    pieces = cut_by_tokens(lengths, budget)
    assert sorted(place for piece in pieces for place in piece) == list(range(len(lengths)))
    for piece in pieces:
        assert len(piece) == 1 or len(piece) * max(lengths[place] for place in piece) <= budget

import numpy as np
from torch.utils.data import DataLoader

from trainwright.train.rows import ChunkSampler, IndexedRows, StepRows, StepSampler, gather_rows, row_length


def in_order(epoch):
    return np.arange(10) + 100 * epoch


def test_a_step_holds_batch_size_rows_and_the_last_one_the_rest():
    sampler = StepSampler(10, 4, in_order, steps_done=lambda: 0)
    assert list(sampler) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(sampler) == 3


def test_a_short_last_step_can_be_left_out():
    assert len(StepSampler(10, 4, in_order, steps_done=lambda: 0, drop_last=True)) == 2


def test_the_epoch_follows_from_the_steps_done_so_a_resume_needs_no_notice_of_it():
    assert next(iter(StepSampler(10, 4, in_order, steps_done=lambda: 3))) == [100, 101, 102, 103]
    assert next(iter(StepSampler(10, 4, in_order, steps_done=lambda: 5))) == [100, 101, 102, 103]


def test_the_shares_of_all_ranks_together_are_the_step():
    shares = [list(StepSampler(10, 4, in_order, lambda: 0, rank=rank, world=2)) for rank in range(2)]
    together = [sorted(one + two) for one, two in zip(*shares, strict=True)]
    assert together == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_chunks_give_each_row_to_one_rank_in_order():
    assert list(ChunkSampler(7, 2, rank=0, world=2)) == [[0, 2], [4, 6]]
    assert list(ChunkSampler(7, 2, rank=1, world=2)) == [[1, 3], [5]]


def test_loader_items_are_ragged_rows_with_their_places():
    data = [{"input_ids": [1] * (index + 1), "labels": index, "text": "x"} for index in range(3)]
    loader = DataLoader(IndexedRows(data, keep=["input_ids", "labels"]), batch_size=2, collate_fn=gather_rows)
    first = next(iter(loader))
    assert isinstance(first, StepRows)
    assert first.indices == [0, 1]
    assert first.rows == [{"input_ids": [1], "labels": 0}, {"input_ids": [1, 1], "labels": 1}]
    assert first.lengths() == [1, 2]


def test_the_length_of_a_row_is_that_of_its_input_ids_or_of_its_longest_field():
    assert row_length({"input_ids": [1, 2, 3], "labels": [1] * 9}) == 3
    assert row_length({"pixels": [1, 2], "labels": 0}) == 2
    assert row_length({"labels": 0}) == 1

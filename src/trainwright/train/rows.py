"""One item of the loader is this rank's share of one optimizer step: ragged rows, not yet cut or padded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from trainwright.train.seeds import seed_for


class StepRows:
    """The rows of one optimizer step on this rank.

    It is neither a mapping nor a sequence on purpose: libraries that walk through batches leave it alone.

    Attributes:
        rows: One dictionary a row, with ragged lists or tensors.
        indices: Each row's place in the data set; -1 where the data set has no places (a stream).
    """

    def __init__(self, rows: list[Mapping[str, Any]], indices: list[int]) -> None:
        self.rows = rows
        self.indices = indices

    def lengths(self) -> list[int]:
        """Tokens of each row."""
        return [row_length(row) for row in self.rows]


def row_length(row: Mapping[str, Any]) -> int:
    """Tokens of one row: the length of its ``input_ids``, or of its longest field; at least 1."""
    ids = row.get("input_ids")
    if ids is not None:
        return max(1, len(ids))
    sizes = [len(value) for value in row.values() if hasattr(value, "__len__") and not isinstance(value, str)]
    return max(sizes, default=1) or 1


class IndexedRows(Dataset):
    """A data set whose rows know their place: item i is ``(i, row)``.

    Args:
        rows: Any map-style data set of dictionaries.
        keep: Names of fields that the model or its loss takes; None keeps all.
    """

    def __init__(self, rows: Any, keep: Sequence[str] | None = None) -> None:
        self.rows = rows
        self.keep = set(keep) if keep is not None else None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[int, Mapping[str, Any]]:
        return index, self._kept(self.rows[index])

    def __getitems__(self, indices: list[int]) -> list[tuple[int, Mapping[str, Any]]]:
        fetch_many = getattr(self.rows, "__getitems__", None)  # one read for the whole step where the data can
        rows = fetch_many(indices) if fetch_many else [self.rows[index] for index in indices]
        return [(index, self._kept(row)) for index, row in zip(indices, rows, strict=True)]

    def _kept(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        return row if self.keep is None else {name: row[name] for name in row if name in self.keep}


class StreamedRows(IterableDataset):
    """A stream whose rows have no place: items are ``(-1, row)``. Ranks take turns, step by step."""

    def __init__(self, rows: Any, keep: Sequence[str] | None, rank: int = 0, world: int = 1) -> None:
        self.rows = rows
        self.keep = set(keep) if keep is not None else None
        self.rank, self.world = rank, world

    def __iter__(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for number, row in enumerate(self.rows):
            if number % self.world == self.rank:
                yield -1, row if self.keep is None else {name: row[name] for name in row if name in self.keep}

    def set_epoch(self, epoch: int) -> None:
        """Tell the stream which pass begins, if it wants to know."""
        if hasattr(self.rows, "set_epoch"):
            self.rows.set_epoch(epoch)


def gather_rows(items: list[tuple[int, Mapping[str, Any]]]) -> StepRows:
    """Collate function of the loader: keeps the rows as they are."""
    return StepRows([row for _index, row in items], [index for index, _row in items])


class StepSampler:
    """Yields, for each optimizer step of an epoch, the places of this rank's rows.

    Which rows make a step is a function of (order of the epoch, step) alone, so it is the same for every number of
    ranks and after every resume. The epoch is read from the number of steps done, when the iteration begins.

    Args:
        rows: Rows of the data set.
        batch_size: Examples of one optimizer step over all ranks.
        order_of: The order of an epoch, as an array of places.
        steps_done: Returns the number of optimizer steps done so far in the run.
        drop_last: Leave out a last step with fewer rows.
    """

    def __init__(
        self,
        rows: int,
        batch_size: int,
        order_of: Callable[[int], np.ndarray],
        steps_done: Callable[[], int],
        rank: int = 0,
        world: int = 1,
        drop_last: bool = False,
    ) -> None:
        self.rows, self.step_size, self.order_of, self.steps_done = rows, batch_size, order_of, steps_done
        self.rank, self.world, self.drop_last = rank, world, drop_last

    def __len__(self) -> int:
        whole, rest = divmod(self.rows, self.step_size)
        return whole + (1 if rest and not self.drop_last else 0)

    def __iter__(self) -> Iterator[list[int]]:
        order = self.order_of(self.steps_done() // max(1, len(self)))
        for step in range(len(self)):
            of_step = order[step * self.step_size : (step + 1) * self.step_size]
            yield of_step[self.rank :: self.world].tolist()


class ChunkSampler:
    """Yields this rank's rows in their own order, a chunk at a time; each row comes once."""

    def __init__(self, rows: int, chunk: int, rank: int = 0, world: int = 1) -> None:
        self.places = range(rank, rows, world)
        self.chunk = chunk

    def __len__(self) -> int:
        return -(-len(self.places) // self.chunk)

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, len(self.places), self.chunk):
            yield list(self.places[start : start + self.chunk])


def order_of_sampler(sampler: Any, seed: int) -> Callable[[int], np.ndarray]:
    """The order of an epoch from a torch sampler, drawn from (seed, epoch) instead of from whatever came before."""

    def order(epoch: int) -> np.ndarray:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for("sampler", seed, epoch))
            return np.fromiter(sampler, dtype=np.int64)

    return order


class RowLoader(DataLoader):
    """A loader whose items are :class:`StepRows`; the type by which the trainer knows its own loaders."""

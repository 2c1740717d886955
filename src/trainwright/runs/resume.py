"""What a run must still be when it goes on: the recipe's `learn:`, the data, the labels.

Each checkpoint holds these facts in its ``trainwright.json``, so that a resumed run is compared with the checkpoint
that it goes on from. What decides the result is refused with both values unless it is agreed to; what decides time,
memory and money may change at any time, and is shown.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.records import Choice, Machine, Prepared, read_json

CONTEXT = "trainwright.json"
# Fields of TrainingArguments that decide what is written, not what is learned.
_WRITING = ("logging_", "save_", "report_to", "run_name", "disable_tqdm", "log_")
# Where rows lie, not which they are: their content is compared by its hash.
_PLACES = ("data.train", "data.validation", "data.test")
_NAMES = ("name", "hub", "format")


@dataclass(frozen=True)
class Difference:
    """A value that is not what it was.

    Attributes:
        learns: Whether it decides the result.
    """

    name: str
    before: Any
    now: Any
    learns: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.now}"


def decides_result(name: str) -> bool:
    """Whether a value of the recipe, by its dotted name, decides what is learned."""
    section, _dot, bare = name.partition(".")
    if section == "trainer":
        return not bare.startswith(_WRITING)
    return section != "run" and name not in _NAMES


def changes(before: Mapping[str, Choice], now: Mapping[str, Choice]) -> list[Difference]:
    """The values of a recipe that differ; those that decide the result come first."""
    missing = Choice(None, "default")
    pairs = [(name, before.get(name, missing).value, now.get(name, missing).value) for name in {**before, **now}]
    found = [Difference(name, old, new, decides_result(name)) for name, old, new in pairs if old != new]
    return sorted(found, key=lambda one: not one.learns)


def facts_of(values: Mapping[str, Choice], prepared: Prepared, machine: Machine | None) -> dict[str, Any]:
    """What goes into every checkpoint: what decides the result, hashes of recipe and data, labels, versions."""
    recipe = {name: choice.value for name, choice in values.items() if decides_result(name) and name not in _PLACES}
    data = {
        "key": prepared.key,
        "labels": list(prepared.labels),
        "max_length": prepared.max_length,
        "rows": {name: split.rows for name, split in prepared.splits.items()},
    }
    text = json.dumps(recipe, sort_keys=True, default=str)
    return {
        "recipe": recipe,
        "recipe_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "data": data,
        "versions": dict(machine.versions) if machine else {},
    }


def unlike(checkpoint: Path, facts: Mapping[str, Any]) -> list[Difference]:
    """Where a run is not what it was when a checkpoint was saved; empty for one that says nothing of it.

    Data, labels and what the recipe says decide the result; versions of libraries do by rounding only.
    """
    saved = _read(checkpoint / CONTEXT)
    found = []
    for part, prefix, learns in (("recipe", "", True), ("data", "data.", True), ("versions", "versions.", False)):
        before, now = saved.get(part), json.loads(json.dumps(facts[part], default=str))
        if not isinstance(before, dict):
            continue
        for name in {**before, **now}:
            if before.get(name) != now.get(name):
                found.append(Difference(prefix + name, before.get(name), now.get(name), learns))
    return found


def newest_checkpoint(root: Path) -> Path | None:
    """The checkpoint with the highest step, whole or not; None without any."""
    found = [(int(match[1]), path) for path in root.glob("checkpoint-*") if (match := re.search(r"-(\d+)$", path.name))]
    return max(found, default=(0, None))[1]


def _read(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself; nothing where it is damaged, which whoever loads it will say."""
    with contextlib.suppress(json.JSONDecodeError, UnicodeDecodeError):
        found = read_json(path)
        return found if isinstance(found, dict) else {}
    return {}

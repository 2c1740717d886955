"""Everything that Trainwright raises on purpose, and the exit code of each.

    TrainwrightError                 70   our bug, if nothing better is known
    ├── UserError                     2   the user's mistake: no traceback is shown
    │   ├── RecipeError                   the recipe (or a command line) asks for something impossible
    │   ├── DataError                     the text or its labels
    │   ├── ModelError                    the model folder or its tokenizer
    │   └── MachineError                  what is asked for is not on this machine
    ├── CheckFailed                   1   a finding stops the run, or a check did not pass
    ├── NothingToDo                   3   the work asked for is done already
    ├── Stopped                       4   stopped on request; the run can be resumed
    ├── GaveUp                        5   tried to go on and could not
    └── KilledBySystem               70   a process was killed by a signal that is not ours

Every error says what is wrong, the value that was seen, and the way out.
"""

from __future__ import annotations


class TrainwrightError(Exception):
    """An error with a sentence for the user.

    Args:
        message: What is wrong, with the value seen.
        way_out: What to do about it; one sentence or a command to paste.
    """

    exit_code = 70

    def __init__(self, message: str, way_out: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.way_out = way_out

    def __str__(self) -> str:
        return f"{self.message} {self.way_out}".strip()


class UserError(TrainwrightError):
    """The user's mistake."""

    exit_code = 2


class RecipeError(UserError):
    """The recipe or the command line asks for something impossible."""


class DataError(UserError):
    """The text or its labels cannot be used as they are."""


class ModelError(UserError):
    """The model folder or its tokenizer cannot be used as it is."""


class MachineError(UserError):
    """What is asked for is not on this machine."""


class CheckFailed(TrainwrightError):
    """A finding stops the run, or a check did not pass."""

    exit_code = 1


class NothingToDo(TrainwrightError):
    """The work asked for is done already."""

    exit_code = 3


class Stopped(TrainwrightError):
    """Stopped on request; the run can be resumed."""

    exit_code = 4


class GaveUp(TrainwrightError):
    """Tried to go on and could not."""

    exit_code = 5


class KilledBySystem(TrainwrightError):
    """A process was killed, and nobody of ours did it."""


def error_from_record(record: dict) -> TrainwrightError:
    """Rebuild an error that a child process wrote down.

    Args:
        record: ``{"type": class name, "message": ..., "way_out": ...}`` as :func:`error_record` makes it.

    Returns:
        An instance of the class of that name, or a plain :class:`TrainwrightError`.
    """
    kinds = {kind.__name__: kind for kind in _all_kinds(TrainwrightError)}
    kind = kinds.get(record.get("type", ""), TrainwrightError)
    return kind(record.get("message", ""), record.get("way_out", ""))


def error_record(error: TrainwrightError) -> dict:
    """The error as plain values, for a journal."""
    return {"type": type(error).__name__, "message": error.message, "way_out": error.way_out}


def _all_kinds(kind: type[TrainwrightError]) -> list[type[TrainwrightError]]:
    return [kind] + [below for child in kind.__subclasses__() for below in _all_kinds(child)]

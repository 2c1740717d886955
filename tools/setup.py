"""Make ``.venv`` with the pinned packages: ``python3 tools/setup.py [quickstart|dev] [--fresh-torch]``.

A working torch of the active Python (a rented image has one) is reused if it covers the card, not downloaded again.
Exit codes: 0 ready, 1 an installation failed, 2 something must be chosen first.

This file finds an accepted Python and must itself start in an old one (3.6): its annotations are quoted.
"""

import os
import shutil
import sys

OLDEST, NEWEST = (3, 11), (3, 14)
VENV_PYTHON = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".venv", "bin", "python")


def main(arguments: "list[str]") -> int:
    """Set up in this Python, or in another one if this is not accepted; returns the exit code."""
    if is_accepted(sys.version_info[:2]):
        from environment import set_up

        return set_up(arguments)
    other = find_python()
    if other and os.environ.get("TRAINWRIGHT_SETUP_PYTHON") != other:
        os.environ["TRAINWRIGHT_SETUP_PYTHON"] = other  # so that two Pythons never call each other without end
        os.execv(other, [other, os.path.abspath(__file__), *arguments])
    sys.stderr.write(complaint(sys.version_info[:3], sys.executable) + "\n")
    return 2


def is_accepted(version: "tuple[int, ...]") -> bool:
    """Whether Trainwright runs on this version of Python."""
    return OLDEST <= version[:2] <= NEWEST


def find_python() -> "str | None":
    """An accepted Python by its usual names, newest first, or that of ``.venv``; None if there is none."""
    names = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    return next((found for found in map(shutil.which, [*names, VENV_PYTHON]) if found), None)


def complaint(version: "tuple[int, ...]", executable: str) -> str:
    """Say that no accepted Python was found."""
    here = ".".join(str(number) for number in version[:3])
    return (
        f"Trainwright needs Python 3.{OLDEST[1]} to 3.{NEWEST[1]}, but this is Python {here} ({executable}) and no "
        "other was found: install one, then name it, as in `make quickstart PYTHON=/path/to/python3.12`."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

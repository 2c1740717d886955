"""Do what a fix says, where it only adds: packages, folders, variables in ~/.bashrc."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from trainwright.doctor.records import Check, Fix, export_line
from trainwright.errors import CheckFailed
from trainwright.messages.text import _

MARK = "# set by trainwright doctor"


def safe_fixes(checks: list[Check]) -> list[Check]:
    """The checks whose fix may be applied, each fix once: those that are not fine."""
    wanted = [check for check in checks if check.verdict in ("blocker", "warning") and check.fix and check.fix.safe]
    return [check for place, check in enumerate(wanted) if check.fix not in [other.fix for other in wanted[:place]]]


def apply_fix(fix: Fix, home: Path | None = None) -> None:
    """Apply one fix.

    Args:
        home: Where .bashrc lies; the user's own home by default.

    Raises:
        CheckFailed: pip ended with an error.
        OSError: A folder or the file cannot be written.
    """
    if fix.install:
        _install(fix.install)
    for folder in fix.folders:
        Path(folder).mkdir(parents=True, exist_ok=True)
    if fix.variables:
        _append((home or Path.home()) / ".bashrc", export_line(fix.variables))


def _install(packages: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pip", "install", *packages]
    done = subprocess.run(command, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise CheckFailed(
            _("pip ended with code {code}; its output is above.").format(code=done.returncode),
            _("Run the line by hand: {command}").format(command=Fix("", install=packages).command),
        )


def _append(file: Path, line: str) -> None:
    """Add a line at the end of a shell's start-up file, unless it is there; nothing in it is changed."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    whole = f"{line}  {MARK}"
    if whole in text.splitlines():
        return
    with open(file, "a", encoding="utf-8") as opened:
        opened.write(("\n" if text and not text.endswith("\n") else "") + whole + "\n")

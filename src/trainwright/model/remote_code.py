"""Python code that comes with a model: not run, unless the command line of this very process says so.

A recipe cannot allow it, since recipes are passed on; neither can the environment. A watcher hands the permission to
its child processes on their command line.
"""

from __future__ import annotations

OPTION = "--trust-remote-code"

_allowed = False


def allow(wanted: bool = True) -> None:
    """Allow it for the rest of this process; the command line does this, and nobody else."""
    global _allowed
    _allowed = wanted


def allowed() -> bool:
    """Whether such code may run; the value for transformers' ``trust_remote_code``."""
    return _allowed

"""A console that outlives its terminal: where nobody reads any more it is silent, and the run goes on."""

from __future__ import annotations

import contextlib
import os
import sys

from rich.console import Console


class PatientConsole(Console):
    """rich's console, which would end the process when its reader is gone."""

    def on_broken_pipe(self) -> None:
        """Be silent from now on."""
        self.quiet = True
        discard_output()


def discard_output() -> None:
    """Send standard output to nowhere, so that nothing written or flushed later can fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):  # closed, or no file: then nothing can be written to it anyway
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

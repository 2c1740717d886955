"""The command line's entry: runs a command, and turns what it raises into a sentence and an exit code."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; ends the process with an exit code of :mod:`trainwright.errors`."""
    from trainwright.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

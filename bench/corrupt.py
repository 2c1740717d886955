"""Damage checkpoints in every way, and count what is found, named and survived: ``python bench/corrupt.py [TRIALS]``.

What is done to them stands in tests/faults/corrupting.py. Results go to bench/results/corrupt.json, from which
``make docs`` writes docs/reliability.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "faults")]


def main() -> None:
    """Run all trials and write the result."""
    from corrupting import make_run, trial
    from speed import about

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run")
        trials = [trial(run, Path(folder) / "copy", number) for number in range(count)]
    lines = ",\n  ".join(json.dumps(one) for one in trials)
    target = HERE / "results" / "corrupt.json"
    target.write_text(f'{{"about": {json.dumps(about())},\n "trials": [\n  {lines}\n ]}}\n', encoding="utf-8")
    failed = [one for one in trials if not (one["found"] and one["named"] and one["survived"])]
    print(f"{len(trials)} corruptions, {len(failed)} not found, named and survived")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

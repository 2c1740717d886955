"""Kill trainings with SIGKILL, resume them, and compare every bit: ``python bench/kill.py [KILLS]``.

Two thirds of the kills come inside a save, at a random file operation; the others at a random moment. One process a
task; results go to bench/results/kill.json, from which ``make docs`` writes docs/reliability.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import check_output
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "faults")]

TASKS = ("classification", "masked-lm")


def main() -> None:
    """Run all trials and write the result."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with ThreadPoolExecutor(len(TASKS)) as pool:
        trials = [
            trial for found in pool.map(lambda task: of_task(task, kills // len(TASKS)), TASKS) for trial in found
        ]
    from speed import about

    target = HERE / "results" / "kill.json"
    lines = ",\n  ".join(json.dumps(trial) for trial in trials)
    target.write_text(f'{{"about": {json.dumps(about())},\n "trials": [\n  {lines}\n ]}}\n', encoding="utf-8")
    failed = [trial for trial in trials if not (trial["resumed"] and trial["same"])]
    print(f"{len(trials)} kills, {len(failed)} failed or differ")
    sys.exit(1 if failed else 0)


def of_task(task: str, kills: int) -> list[dict[str, Any]]:
    """The trials of one task, made in a process of its own, from which trials are forked."""
    printed = check_output([sys.executable, __file__, "--task", task, str(kills)], text=True)
    return json.loads(printed.splitlines()[-1])


def trials_of(task: str, kills: int) -> list[dict[str, Any]]:
    """Kill and resume so many times."""
    import torch
    from killing import Killing

    torch.set_num_threads(1)  # a fork copies one thread only
    with tempfile.TemporaryDirectory() as folder:
        killing = Killing(task, Path(folder))
        return [killing.trial(number, in_save=number % 3 != 0) for number in range(kills)]


if __name__ == "__main__":
    if "--task" in sys.argv:
        print(json.dumps(trials_of(sys.argv[2], int(sys.argv[3]))))
    else:
        main()

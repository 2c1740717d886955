"""Seconds a training step, Trainwright beside transformers' own Trainer: ``python bench/speed.py [--works short]``.

Every contender runs in a process of its own, in turn, several rounds; the first step of each is not counted. All train
on 64 examples a step with the model's own dropout. Results go to bench/results/speed.json, and ``make docs`` makes the
tables of docs/benchmarks.md from them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from work import EXAMPLES, WORKS, model_of, rows_of

from trainwright.launch.local import child_environment

RESULTS = Path(__file__).parent / "results" / "speed.json"
CONTENDERS = {
    "stock fp32": "transformers' Trainer, 16 x 4, fp32 (fp16, as the guide asks, is ignored on a processor)",
    "stock bf16": "transformers' Trainer, 16 x 4, bf16",
    "stock bf16 rebalanced": "transformers' Trainer, 16 x 4, bf16, batch_rebalance: the same rows a step",
    "plain loop": "a hand-written loop, 16 x 4, padded, fp32",
    "trainwright bf16": "trainwright.Trainer, bf16",
    "trainwright fp32": "trainwright.Trainer, fp32",
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--works", nargs="+", default=["short", "mixed"], choices=list(WORKS))
    parser.add_argument("--models", nargs="+", default=["minilm"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", nargs=3, metavar=("CONTENDER", "WORK", "MODEL"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return
    trials = []
    for number in range(options.rounds):
        for model in options.models:
            for work in options.works:
                for contender in CONTENDERS:
                    trial = in_a_process(contender, work, model) | {"round": number}
                    trials.append(trial)
                    print(number, model, work, contender, f"{trial['seconds']:.3f} s a step", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"about": about(), "trials": trials}, indent=1) + "\n")


def in_a_process(contender: str, work: str, model: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", contender, work, model]
    # the short spin of Trainwright's training process for everybody: a busy neighbour then disturbs all alike, and less
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=child_environment(os.environ))
    return json.loads(done.stdout.splitlines()[-1])


def measure(contender: str, work: str, model_name: str) -> dict[str, Any]:
    """Median seconds of a step, real tokens a second, padding, peak memory of one contender."""
    warnings.filterwarnings("ignore")
    rows, classes = rows_of(WORKS[work])
    model = model_of(model_name, classes)
    seconds, padding = (plain_loop if contender == "plain loop" else trainer_loop)(contender, work, rows, model)
    step = statistics.median(seconds)
    tokens = EXAMPLES * sum(len(row["input_ids"]) for row in rows) / len(rows)
    return {
        "contender": contender, "work": work, "model": model_name, "seconds": step,
        "real_tokens_per_second": tokens / step, "tokens_per_row": tokens / EXAMPLES, "padding": padding,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }  # fmt: skip


def trainer_loop(contender: str, work: str, rows: list, model: Any) -> tuple[list[float], float | None]:
    import transformers
    from transformers import AutoTokenizer, DataCollatorWithPadding, TrainerCallback, TrainingArguments
    from work import encoder

    import trainwright

    class Clock(TrainerCallback):
        def __init__(self) -> None:
            self.ends: list[float] = []

        def on_step_end(self, *_words: Any, **_named: Any) -> None:
            self.ends.append(time.perf_counter())

    transformers.utils.logging.set_verbosity_error()
    clock, ours = Clock(), contender.startswith("trainwright")
    more = {"train_sampling_strategy": "batch_rebalance"} if "rebalanced" in contender else {}
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=16, gradient_accumulation_steps=EXAMPLES // 16,
        max_steps=WORKS[work].steps + 1, bf16="bf16" in contender, use_cpu=True, save_strategy="no", report_to=[],
        logging_steps=1000, disable_tqdm=True, **more,
    )  # fmt: skip
    kind: Any = trainwright.Trainer if ours else transformers.Trainer
    collator = None if ours else DataCollatorWithPadding(AutoTokenizer.from_pretrained(encoder()))
    trainer = kind(model, arguments, collator, train_dataset=rows, callbacks=[clock])
    trainer.train()
    taken = [after - before for before, after in zip(clock.ends, clock.ends[1:], strict=False)]
    return taken, 0.0 if ours else None


def plain_loop(contender: str, work: str, rows: list, model: Any) -> tuple[list[float], float | None]:
    import torch

    from trainwright.train.collate import PadRows

    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    pad, taken = PadRows(0), []
    model.train()
    for step in range(WORKS[work].steps + 1):
        began = time.perf_counter()
        for part in range(0, EXAMPLES, 16):
            start = (step * EXAMPLES + part) % (len(rows) - 16)
            batch = pad(rows[start : start + 16])
            (model(**batch).loss * 16 / EXAMPLES).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        taken.append(time.perf_counter() - began)
    return taken[1:], None


def about() -> dict[str, Any]:
    """Commit, machine and versions."""
    import torch
    import transformers

    from trainwright.machine.look import look

    machine = look()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "commit": commit, "date": datetime.date.today().isoformat(), "processor": machine.processor,
        "cores": machine.cores, "bf16": machine.bf16_cpu, "python": platform.python_version(),
        "torch": torch.__version__, "transformers": transformers.__version__,
    }  # fmt: skip


if __name__ == "__main__":
    main()

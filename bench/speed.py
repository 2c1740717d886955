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

import torch
import transformers
from transformers import TrainerCallback
from work import EXAMPLES, WORKS, encoder, model_of, rows_of

from trainwright.launch.local import child_environment
from trainwright.train.collate import PadRows

RESULTS = Path(__file__).parent / "results" / "speed.json"
CONTENDERS = {
    "stock fp32": "transformers' Trainer, 16 x 4, fp32 (fp16, as the guide asks, is ignored on a processor)",
    "stock bf16": "transformers' Trainer, 16 x 4, bf16",
    "stock bf16 rebalanced": "transformers' Trainer, 16 x 4, bf16, batch_rebalance: the same rows a step",
    "stock bf16 by length": "transformers' Trainer, 16 x 4, bf16, group_by_length: trains on other steps",
    "plain loop": "a hand-written loop, 16 x 4, padded, fp32",
    "trainwright bf16": "trainwright.Trainer, bf16",
    "trainwright fp32": "trainwright.Trainer, fp32",
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--works", nargs="+", default=["short", "mixed"], choices=list(WORKS))
    parser.add_argument("--models", nargs="+", default=["minilm"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", nargs=4, metavar=("CONTENDER", "WORK", "MODEL", "WHAT"))
    parser.add_argument("--add", action="store_true", help="keep the results of other works and models")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one[:3], gradient=options.one[3] == "gradient")))
        return
    trials = []
    for number in range(options.rounds):
        for model in options.models:
            for work in options.works:
                for contender in CONTENDERS:
                    gradient = number == 0 and work != "long"  # in float64, long texts would take minutes
                    trial = in_a_process(contender, work, model, gradient) | {"round": number}
                    trials.append(trial)
                    print(number, model, work, contender, f"{trial['seconds']:.3f} s a step", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    if options.add and RESULTS.exists():
        measured = {(model, work) for model in options.models for work in options.works}
        before = json.loads(RESULTS.read_text())["trials"]
        trials = [trial for trial in before if (trial["model"], trial["work"]) not in measured] + trials
    RESULTS.write_text(json.dumps({"about": about(), "trials": trials}, indent=1) + "\n")


def in_a_process(contender: str, work: str, model: str, gradient: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", contender, work, model, "gradient" if gradient else "time"]
    # the short spin of Trainwright's training process for everybody: a busy neighbour then disturbs all alike, and less
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=child_environment(os.environ))
    return json.loads(done.stdout.splitlines()[-1])


def measure(contender: str, work: str, model_name: str, gradient: bool) -> dict[str, Any]:
    """Median seconds of a step, real tokens a second, peak memory; once also what its gradient is worth."""
    warnings.filterwarnings("ignore")
    rows, classes = rows_of(WORKS[work])
    model = model_of(model_name, classes)
    seconds = (plain_loop if contender == "plain loop" else trainer_loop)(contender, work, rows, model)
    step = statistics.median(seconds)
    tokens = EXAMPLES * sum(len(row["input_ids"]) for row in rows) / len(rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # before anything else is measured
    difference = gradient_difference(contender, rows[:EXAMPLES], model_name, classes) if gradient else None
    return {
        "contender": contender, "work": work, "model": model_name, "seconds": step,
        "real_tokens_per_second": tokens / step, "tokens_per_row": tokens / EXAMPLES, "peak_bytes": peak,
        "gradient_difference": difference,
        "products_seconds": products_seconds(model, round(tokens)) if contender == "trainwright bf16" else None,
    }  # fmt: skip


class Clock(TrainerCallback):
    """When each step ended, and the gradient of the first before it was used."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.gradient: list[Any] = []

    def on_step_end(self, *_words: Any, **_named: Any) -> None:
        self.ends.append(time.perf_counter())

    def on_pre_optimizer_step(self, *_words: Any, model: Any = None, **_named: Any) -> None:
        self.gradient = self.gradient or [parameter.grad for parameter in model.parameters()]


def make_trainer(contender: str, rows: list, model: Any, clock: Clock, steps: int, **changed: Any) -> Any:
    import trainwright

    transformers.utils.logging.set_verbosity_error()
    strategy = {"rebalanced": "batch_rebalance", "length": "group_by_length"}.get(contender.split()[-1])
    more = {"train_sampling_strategy": strategy} if strategy else {}
    options = {
        "per_device_train_batch_size": 16, "gradient_accumulation_steps": EXAMPLES // 16, "max_steps": steps,
        "bf16": "bf16" in contender, "use_cpu": True, "save_strategy": "no", "report_to": [], "logging_steps": 1000,
        "disable_tqdm": True,
    }  # fmt: skip
    arguments = transformers.TrainingArguments(tempfile.mkdtemp(), **options | more | changed)
    ours = contender.startswith("trainwright")
    kind: Any = trainwright.Trainer if ours else transformers.Trainer
    tokenizer = None if ours else transformers.AutoTokenizer.from_pretrained(encoder())
    collator = transformers.DataCollatorWithPadding(tokenizer) if tokenizer else None
    return kind(model, arguments, collator, train_dataset=rows, callbacks=[clock])


def trainer_loop(contender: str, work: str, rows: list, model: Any) -> list[float]:
    clock = Clock()
    make_trainer(contender, rows, model, clock, WORKS[work].steps + 1).train()
    return [after - before for before, after in zip(clock.ends, clock.ends[1:], strict=False)]


def plain_loop(contender: str, work: str, rows: list, model: Any) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    taken = []
    model.train()
    for step in range(WORKS[work].steps + 1):
        began = time.perf_counter()
        for part in range(0, EXAMPLES, 16):
            start = (step * EXAMPLES + part) % (len(rows) - 16)
            (model(**PadRows(0)(rows[start : start + 16])).loss * 16 / EXAMPLES).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        taken.append(time.perf_counter() - began)
    return taken[1:]


def gradient_difference(contender: str, rows: list, model_name: str, classes: int) -> float | None:
    """Relative difference of a step's gradient from that of the same rows uncut in float64; dropout off for both."""
    if contender == "plain loop":
        return None  # it is what the reference is made with
    reference = without_dropout(model_of(model_name, classes)).double().train()
    for start in range(0, len(rows), 8):
        part = rows[start : start + 8]
        (reference(**PadRows(0)(part)).loss * len(part) / len(rows)).backward()
    clock = Clock()
    model = without_dropout(model_of(model_name, classes))
    make_trainer(contender, rows, model, clock, 1, max_grad_norm=0.0).train()
    pairs = [(p.grad, g) for p, g in zip(reference.parameters(), clock.gradient, strict=True) if p.grad is not None]
    size = sum(float(expected.norm()) ** 2 for expected, _found in pairs) ** 0.5
    return sum(float((found - expected).norm()) ** 2 for expected, found in pairs) ** 0.5 / size


def without_dropout(model: Any) -> Any:
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def products_seconds(model: Any, tokens: int) -> float:
    """Seconds of the matrix products of one step alone, in bf16: three for each linear layer of the encoder."""
    layers = [(m.out_features, m.in_features) for m in model.base_model.modules() if type(m) is torch.nn.Linear][:-1]
    sizes = sorted(set(layers))
    weights = {size: torch.randn(size).bfloat16() for size in sizes}
    inputs = {width: torch.randn(tokens, width).bfloat16() for size in sizes for width in size}
    taken = []
    for _round in range(4):
        began = time.perf_counter()
        for rows, columns in layers:
            weight, x, y = weights[rows, columns], inputs[columns], inputs[rows]
            x @ weight.T, y @ weight, y.T @ x
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def about() -> dict[str, Any]:
    """Commit, machine and versions."""
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

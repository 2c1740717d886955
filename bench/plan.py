"""Is the memory that a plan predicts the memory that a training takes?

Each configuration of plan_configs.json (written down before anything was measured) trains two steps of two equal
micro-batches with the real Trainer on made-up rows, in a fresh fork whose highest resident memory is read. Two
constants, the context and the allocator's slack, are fitted on half of them; errors are those of the other half.
Results go to bench/results/plan.json as they come, so it can be run in slices:

    python bench/plan.py --seconds 240     # as many configurations as that allows, those without a result first
    python bench/plan.py --fit             # the constants, for plan/memory.py
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch
import transformers
from plan_rows import lengths_of
from transformers import AutoConfig, AutoModelForSequenceClassification, TrainingArguments

from trainwright.machine.look import look
from trainwright.plan.memory import Setting, memory_of
from trainwright.plan.shape import shape_of
from trainwright.train.trainer import Trainer

CONFIGS = Path(__file__).resolve().parent / "plan_configs.json"
RESULTS = Path(__file__).resolve().parent / "results" / "plan.json"
STEPS = 2
MICRO_BATCHES = 2


def predicted(config: dict[str, Any], one: dict[str, Any]) -> dict[str, int]:
    """The parts of memory, as a plan has them."""
    setting = Setting("cpu", one["precision"], not one["recompute"], one["recompute"], one["optimizer"])
    shape = shape_of(config, 2)
    assert shape is not None
    memory = memory_of(shape, lengths_of(one), setting)
    assert memory is not None
    return dict(vars(memory))


def measure(config: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """Train in a fork, and read how high its resident memory went."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(_train(config, one)).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _pid, status = os.waitpid(child, 0)
    return json.loads(text) if status == 0 else {"failed": status}


def _train(config: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    began, before = time.monotonic(), _status("VmRSS")
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(**config), dtype=torch.float32)
    lengths = lengths_of(one) * MICRO_BATCHES
    rows = [{"input_ids": [7] * length, "labels": number % 2} for number, length in enumerate(lengths)]
    with tempfile.TemporaryDirectory() as scratch:
        args = TrainingArguments(
            scratch, max_steps=STEPS, per_device_train_batch_size=len(rows), use_cpu=True, report_to=[],
            bf16=one["precision"] == "bf16", optim=one["optimizer"], gradient_checkpointing=one["recompute"],
            gradient_checkpointing_kwargs={"use_reentrant": False} if one["recompute"] else None,
            save_strategy="no", disable_tqdm=True, logging_steps=100,
        )  # fmt: skip
        padding = "padded" if one["recompute"] else "auto"
        trainer = Trainer(
            model, args, train_dataset=rows * STEPS, data_collator=None, tokens_per_micro_batch=one["tokens"],
            padding=padding, processing_class=None,
        )  # fmt: skip
        trainer.train()
    return {
        "before": before,
        "highest": _status("VmHWM"),
        "micro_batches": trainer.counter.micro_batches,
        "packed": type(trainer.batches).__name__ == "PackedBatches",
        "seconds": round(time.monotonic() - began, 1),
    }


def _status(field: str) -> int:
    """A field of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def main(seconds: float) -> None:
    """Measure what has no result yet until the time is up."""
    plain = json.loads(CONFIGS.read_text())
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"measured": {}}
    until = time.monotonic() + seconds
    for one in plain["configurations"]:
        if one["name"] in results["measured"] or time.monotonic() > until:
            continue
        taken = measure(plain["architectures"][one["architecture"]], one)
        results["measured"][one["name"]] = taken
        results["about"] = about()
        print(one, taken, flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def fit() -> dict[str, float]:
    """The constants of plan/memory.py from the part to fit: least squares of the relative error.

    Returns:
        context in bytes; shares of activations and workspace together where rows are packed, and of each where layers
        are recomputed.
    """
    import numpy as np

    plain, measured = json.loads(CONFIGS.read_text()), json.loads(RESULTS.read_text())["measured"]
    known, rest = [], []
    for one in plain["configurations"]:
        if one["part"] != "fit" or "highest" not in measured.get(one["name"], {}):
            continue
        parts, highest = predicted(plain["architectures"][one["architecture"]], one), measured[one["name"]]["highest"]
        tensors = sum(parts.values()) - parts["context"] - parts["slack"]
        kept, beside = parts["activations"], parts["workspace"]
        shares = [0, kept, beside] if one["recompute"] else [kept + beside, 0, 0]
        known.append([share / highest for share in (1e9, *shares)])
        rest.append((highest - tensors) / highest)
    values = np.linalg.lstsq(np.array(known), np.array(rest), rcond=None)[0]
    names = ("context", "packed", "activations, recomputing", "workspace, recomputing")
    return dict(zip(names, (float(value) for value in values * [1e9, 1, 1, 1]), strict=True))


def about() -> dict[str, Any]:
    """Where this was measured."""
    machine = look()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    return {
        "date": datetime.date.today().isoformat(), "commit": commit.stdout.strip(), "processor": machine.processor,
        "threads": torch.get_num_threads(), "python": platform.python_version(), "torch": torch.__version__,
        "transformers": transformers.__version__, "allocator": " ".join(platform.libc_ver()),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--fit", action="store_true", help="print the constants that fit best")
    asked = parser.parse_args()
    if asked.fit:
        print(fit())
    else:
        main(asked.seconds)

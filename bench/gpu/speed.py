"""BERT-base on a card, stock Trainer beside ours: ``python3 bench/gpu/speed.py --out results.json``.

For a bare image: python3 with torch and transformers, this repository's src on PYTHONPATH; no data and no model are
needed, weights and token ids are drawn at random. ``--tiny`` goes the same road on a processor with a small model.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification, TrainerCallback, TrainingArguments

import trainwright
from trainwright.model.attention import flash_kernel

EXAMPLES = 64
HEADLINE_FLOP = 2.3e17  # the guide's job: 3.9e8 to 4.9e8 padded tokens of BERT-base, forward and backward
# Dense bf16 with fp32 accumulation, FLOP/s, from NVIDIA's data sheets; the first name that the card's holds
PEAKS = {"H200": 989e12, "H100 PCIe": 756e12, "H100": 989e12, "A100": 312e12, "A800": 312e12, "4090": 165.2e12}
WARM_UP = 3


class Clock(TrainerCallback):
    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_words: Any, **_named: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true", help="a small model on a processor: does the script work?")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    works = {"8": 8, "mixed": None} if options.tiny else {"128": 128, "512": 512, "mixed": None}
    trials = []
    for work, length in works.items():
        for contender in ("stock bf16", "trainwright bf16"):
            trial = measure(contender, lengths_of(length, 32 if options.tiny else 512), options)
            trials.append({"work": work, "contender": contender} | trial)
            print(json.dumps(trials[-1]), flush=True)
    options.out.write_text(json.dumps({"about": about(), "trials": trials}, indent=1) + "\n")


def measure(contender: str, lengths: list[int], options: argparse.Namespace) -> dict[str, Any]:
    """Median seconds of a step, tokens and FLOP a second, share of the card's peak, greatest memory."""
    config = config_of(options.tiny)
    torch.manual_seed(0)
    model = BertForSequenceClassification(config)
    rng = random.Random(0)
    rows = [
        {"input_ids": [rng.randrange(5, config.vocab_size) for _ in range(n)], "labels": rng.randrange(2)}
        for n in lengths
    ]
    ours, clock = contender.startswith("trainwright"), Clock()
    arguments = TrainingArguments(
        tempfile.mkdtemp(), per_device_train_batch_size=EXAMPLES, max_steps=options.steps, bf16=True,
        use_cpu=options.tiny, save_strategy="no", report_to=[], logging_steps=10_000, disable_tqdm=True,
        dataloader_num_workers=0 if options.tiny else 2,
    )  # fmt: skip
    kind: Any = trainwright.Trainer if ours else transformers.Trainer
    trainer = kind(model, arguments, None if ours else pad, train_dataset=rows, callbacks=[clock])
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    trainer.train()
    taken = [after - before for before, after in zip(clock.ends, clock.ends[1:], strict=False)][WARM_UP - 1 :]
    seconds = statistics.median(taken)
    flop = EXAMPLES * statistics.mean(flop_of_row(config, length) for length in lengths)
    peak = peak_of_card()
    return {
        "seconds": seconds, "real_tokens_per_second": EXAMPLES * statistics.mean(lengths) / seconds,
        "flop_per_second": flop / seconds, "share_of_peak": flop / seconds / peak if peak else None,
        "headline_hours": HEADLINE_FLOP / (flop / seconds) / 3600,
        "peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None,
        "kernel": kernel_of(trainer) if ours else config._attn_implementation,
    }  # fmt: skip


def config_of(tiny: bool) -> BertConfig:
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    return BertConfig(**small, vocab_size=100) if tiny else BertConfig()


def lengths_of(length: int | None, longest: int, rows: int = 2048) -> list[int]:
    """Tokens of each row: all alike, or skewed as texts are (log-normal, median a quarter of the longest)."""
    if length is not None:
        return [length] * rows
    rng = random.Random(1)
    return [max(4, min(longest, round(rng.lognormvariate(math.log(longest / 4), 0.8)))) for _ in range(rows)]


def flop_of_row(config: BertConfig, length: int) -> float:
    """FLOP of forward and backward of one row without padding: 6 a weight and token, and attention's 12 L h S a token
    (Kaplan et al. 2020, Chowdhery et al. 2022)."""
    h, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    weights = layers * (4 * h * h + 2 * h * inner)
    return length * (6 * weights + 12 * layers * h * length)


def pad(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    from trainwright.train.collate import PadRows

    return PadRows(0)(rows)


def kernel_of(trainer: Any) -> str:
    if not hasattr(trainer.batches, "unpadded"):
        return "padded"
    kernel = flash_kernel(torch.bfloat16, 0.1) if torch.cuda.is_available() else None
    return kernel.__name__.strip("_") if kernel else "groups of equal length"


def peak_of_card() -> float | None:
    """The card's peak in FLOP/s; None where there is no card or it is not in the table."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return next((peak for part, peak in PEAKS.items() if part in name), None)


def about() -> dict[str, Any]:
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "date": datetime.date.today().isoformat(), "card": card, "torch": torch.__version__,
        "transformers": transformers.__version__,
    }  # fmt: skip


if __name__ == "__main__":
    main()

"""Which families of models go through the exact step: tiny random ones, in float64, cut against whole.

For each family a classifier is trained for two steps by Trainwright's Trainer, once with each step cut as finely as can
be and once whole, and by a loop in plain PyTorch that knows neither. Written to bench/results/families.json, from which
docs/models.md is made:

    python bench/families.py
"""

from __future__ import annotations

import datetime
import json
import math
import platform
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

from trainwright.machine.look import look
from trainwright.model.check import position_limit
from trainwright.model.unpad import problem_of
from trainwright.train.seeds import shuffled
from trainwright.train.trainer import Trainer

RESULTS = Path(__file__).resolve().parent / "results" / "families.json"
ROWS, BATCH, STEPS, CLASSES, WORDS, PLACES, SEED = 12, 6, 2, 3, 50, 64, 7
RATE = 0.1
SMALLEST, WHOLE = 1, 10**9  # tokens of a micro-batch: a row each, or all rows of the step
TOLERANCE = 1e-12  # of the gradient's norm, in float64

_SIZE = {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
_SIZE |= {"intermediate_size": 32, "max_position_embeddings": PLACES, "num_labels": CLASSES, "pad_token_id": 0}
_STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}
_ENDS = {"bos_token_id": 1, "eos_token_id": 2}
_DECODER = _SIZE | _ENDS | {"num_key_value_heads": 1, "head_dim": 8, "attention_dropout": 0.0}

# Name in transformers -> configuration: two layers, no dropout (its draw depends on the cut, as it may)
FAMILIES: dict[str, dict[str, Any]] = {
    "Bert": _SIZE | _STILL,
    "Roberta": _SIZE | _STILL | {"pad_token_id": 1},
    "XLMRoberta": _SIZE | _STILL | {"pad_token_id": 1},
    "DistilBert": {
        **{"vocab_size": WORDS, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "num_labels": CLASSES},
        **{"max_position_embeddings": PLACES, "pad_token_id": 0},
        **{"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0},
    },
    "Electra": _SIZE | _STILL | {"embedding_size": 8},
    "Albert": _SIZE | _STILL | {"embedding_size": 8, "classifier_dropout_prob": 0.0},
    "DebertaV2": _SIZE
    | _STILL
    | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8, "pooler_dropout": 0.0}
    | {"position_biased_input": False, "norm_rel_ebd": "layer_norm", "share_att_key": True, "pooler_hidden_size": 16}
    | {"max_relative_positions": -1, "type_vocab_size": 0},
    "ModernBert": _SIZE
    | _ENDS
    | {"attention_dropout": 0.0, "local_attention": 8, "global_attn_every_n_layers": 2}
    | {"cls_token_id": 1, "sep_token_id": 2},
    "GPT2": {
        **{"vocab_size": WORDS, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": PLACES, "num_labels": CLASSES},
        **{"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "pad_token_id": 0, **_ENDS},
    },
    "Llama": _DECODER,
    "Qwen2": _DECODER,
    "Qwen3": _DECODER,
}


def make(family: str) -> Any:
    """A tiny classifier of the family, drawn from a fixed seed, in float64."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**FAMILIES[family])
    config.problem_type = "single_label_classification"  # as a recipe's run has it; left out, DeBERTa's loss is fp32
    return getattr(transformers, f"{family}ForSequenceClassification")(config).double()


def rows() -> list[dict[str, Any]]:
    """Rows of 2 to 39 tokens."""
    draw = random.Random(3)
    lengths = [draw.randrange(2, 40) for _ in range(ROWS)]
    return [{"input_ids": [draw.randrange(5, WORDS) for _ in range(n)], "labels": n % CLASSES} for n in lengths]


class _Gradients(transformers.TrainerCallback):
    def __init__(self) -> None:
        self.steps: list[list[torch.Tensor]] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.steps.append(_gradients(model))


def by_trainer(family: str, tokens: int) -> list[list[torch.Tensor]]:
    """The gradient of each step, as the Trainer makes it from micro-batches of so many tokens."""
    seen = _Gradients()
    with tempfile.TemporaryDirectory() as folder:
        args = transformers.TrainingArguments(
            output_dir=folder, per_device_train_batch_size=BATCH, max_steps=STEPS, learning_rate=RATE, optim="sgd",
            lr_scheduler_type="constant", max_grad_norm=0.0, logging_strategy="no", save_strategy="no", report_to=[],
            use_cpu=True, disable_tqdm=True, seed=SEED,
        )  # fmt: skip
        Trainer(make(family), args, train_dataset=rows(), tokens_per_micro_batch=tokens, callbacks=[seen]).train()
    return seen.steps


def by_hand(family: str) -> list[list[torch.Tensor]]:
    """The same in plain PyTorch: whole batches padded by hand, torch's own mean, gradient descent by hand."""
    model = make(family).train()
    found, data, order = [], rows(), shuffled(ROWS, SEED, 0)
    for step in range(STEPS):
        batch = [data[place] for place in order[step * BATCH : (step + 1) * BATCH]]
        width = max(len(row["input_ids"]) for row in batch)
        fill = [width - len(row["input_ids"]) for row in batch]
        pad = model.config.pad_token_id
        ids = torch.tensor([row["input_ids"] + [pad] * more for row, more in zip(batch, fill, strict=True)])
        mask = torch.tensor([[1] * (width - more) + [0] * more for more in fill])
        model.zero_grad()
        logits = model(input_ids=ids, attention_mask=mask).logits
        torch.nn.functional.cross_entropy(logits, torch.tensor([row["labels"] for row in batch])).backward()
        found.append(_gradients(model))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= RATE * parameter.grad
    return found


def difference(ours: list[list[torch.Tensor]], theirs: list[list[torch.Tensor]]) -> float:
    """The largest distance of two gradients of a step, as a share of the second one's norm."""
    return max(
        math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(one, other, strict=True)))
        / math.sqrt(sum(float((b**2).sum()) for b in other))
        for one, other in zip(ours, theirs, strict=True)
    )


def longest_that_runs(family: str, upto: int = PLACES + 8) -> int | None:
    """The longest row that the model takes; None if it takes rows beyond its table's size, too."""
    model = make(family).eval()
    runs = None
    with torch.no_grad():
        for length in range(PLACES - 8, upto):
            try:
                model(input_ids=torch.full((1, length), 9))
            except (IndexError, RuntimeError):
                return runs
            runs = length
    return None


def measure(family: str) -> dict[str, Any]:
    """Everything about one family, as the results keep it."""
    hand = by_hand(family)
    model = make(family)
    return {
        "family": family,
        "model_type": model.config.model_type,
        "task": "text-classification",
        "cut": difference(by_trainer(family, SMALLEST), hand),
        "whole": difference(by_trainer(family, WHOLE), hand),
        "packed": problem_of(model) is None,
        "limit": position_limit(model.config.to_dict()),
        "longest": longest_that_runs(family),
    }


def _gradients(model: Any) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def main() -> None:
    """Measure every family and write the results."""
    transformers.logging.set_verbosity_error()
    found = [measure(family) for family in FAMILIES]
    RESULTS.write_text(json.dumps({"about": about(), "families": found}, indent=1) + "\n", encoding="utf-8")


def about() -> dict[str, Any]:
    """Commit, machine, versions and seed."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "commit": commit, "date": datetime.date.today().isoformat(), "processor": look().processor,
        "python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__,
        "seed": SEED, "rows": ROWS, "batch": BATCH, "steps": STEPS,
    }  # fmt: skip


if __name__ == "__main__":
    main()

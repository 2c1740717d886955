"""Small trainings, and faults put into them for real."""

import contextlib
import importlib
import random

import torch
import transformers
from transformers import TrainingArguments

from trainwright.train.trainer import Trainer

WORDS, CLASSES = 40, 3


def rows_of(count, seed=0, longest=30):
    rng = random.Random(seed)
    lengths = [rng.randrange(2, longest) for _ in range(count)]
    return [
        {"input_ids": [rng.randrange(5, WORDS) for _ in range(length)], "labels": rng.randrange(CLASSES)}
        for length in lengths
    ]


def bert(rate=0.1):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=40, num_labels=CLASSES, hidden_dropout_prob=rate, attention_probs_dropout_prob=rate,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def trainer_in(folder, model=None, rows=None, **changed):
    own = {name: changed.pop(name) for name in ("tokens_per_micro_batch", "padding", "callbacks") if name in changed}
    more = {name: changed.pop(name) for name in ("eval_dataset", "data_collator") if name in changed}
    options = {
        "output_dir": str(folder), "per_device_train_batch_size": 8, "max_steps": 6, "learning_rate": 1e-3,
        "logging_steps": 1, "save_steps": 2, "report_to": [], "use_cpu": True, "disable_tqdm": True,
    }  # fmt: skip
    model = model if model is not None else bert().double()
    rows = rows if rows is not None else rows_of(20)
    return Trainer(model, TrainingArguments(**(options | changed)), train_dataset=rows, **own, **more)


def largest_difference(one, two):
    pairs = zip(one.state_dict().items(), two.state_dict().values(), strict=True)
    return max(float((a.double() - b.double()).abs().max()) for (_name, a), b in pairs)


def losses_of(trainer):
    return [(line["step"], line["loss"]) for line in trainer.state.log_history if "loss" in line]


def out_of_memory():
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")


def recomputes(model):
    return any(getattr(part, "gradient_checkpointing", False) for part in model.modules())


class SmallMemory:
    """A model that has room for some tokens only: in the forward, or not before the backward.

    Args:
        tokens: What fits into one micro-batch while activations are kept.
        begins: Steps that are done when memory becomes that small.
        recomputed: What fits while activations are computed anew.
    """

    def __init__(self, trainer, tokens, begins=0, where="forward", recomputed=None):
        self.trainer, self.tokens, self.begins, self.where = trainer, tokens, begins, where
        self.recomputed = recomputed if recomputed is not None else tokens
        self.raised = 0
        trainer.model.register_forward_pre_hook(self._before, with_kwargs=True)
        trainer.model.base_model.embeddings.register_forward_hook(self._embedded)

    def _too_large(self, ids):
        room = self.recomputed if recomputes(self.trainer.model) else self.tokens
        return self.trainer.state.global_step >= self.begins and ids.numel() > room

    def _before(self, model, words, named):
        self.large = self._too_large(named["input_ids"])
        if self.large and self.where == "forward":
            self._fail()

    def _embedded(self, module, words, output):
        if self.large and self.where == "backward" and output.requires_grad:
            output.register_hook(lambda gradient: self._fail())

    def _fail(self, *_):
        self.raised += 1
        raise out_of_memory()


@contextlib.contextmanager
def failing_update(monkeypatch, call, error=out_of_memory):
    """The ``call``-th parameter group that AdamW updates is not reached: the ones before it have changed."""
    functions = importlib.import_module("torch.optim.adam")
    real = functions.adam
    calls = []

    def adam(*words, **named):
        calls.append(1)
        if len(calls) == call:
            raise error()
        return real(*words, **named)

    with monkeypatch.context() as patched:
        patched.setattr(functions, "adam", adam)
        yield calls

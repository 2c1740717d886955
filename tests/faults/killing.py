"""Trainings that are killed: a process is forked for each trial, killed for real, and another one resumes.

Half of the trials are killed at a random moment, by the parent; the others inside a save, at a random one of its file
operations, by themselves. Both with SIGKILL, which no handler sees.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback

import torch
import transformers
from faulty import CLASSES, WORDS, bert, rows_of, trainer_in
from transformers import DataCollatorForLanguageModeling, TrainerCallback

from trainwright.train import checkpoint

STEPS = 6  # of 5 an epoch
FILE_EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"}
TASKS = ("classification", "masked-lm")


def trainer_of(task, folder):
    if task == "classification":
        return trainer_in(folder, bert(), rows_of(40), max_steps=STEPS, tokens_per_micro_batch=64)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=40, num_labels=CLASSES,
    )  # fmt: skip
    rows = [{"input_ids": row["input_ids"]} for row in rows_of(40)]
    collator = DataCollatorForLanguageModeling(Words(), mlm_probability=0.3)
    model = transformers.BertForMaskedLM(config)
    return trainer_in(folder, model, rows, max_steps=STEPS, tokens_per_micro_batch=64, data_collator=collator)


class Words:
    """What a collator for masked words asks of a tokenizer."""

    mask_token, mask_token_id, pad_token, pad_token_id, padding_side = "[MASK]", 3, "[PAD]", 0, "right"

    def __len__(self):
        return WORDS

    def pad(self, rows, return_tensors="pt", pad_to_multiple_of=None):
        width = max(len(row["input_ids"]) for row in rows)
        ids = [list(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows]
        return {"input_ids": torch.tensor(ids), "attention_mask": (torch.tensor(ids) != 0).long()}

    def get_special_tokens_mask(self, ids, already_has_special_tokens=True):
        return [int(word in (0, 3)) for word in ids]

    def save_pretrained(self, folder):
        pass

    def convert_tokens_to_ids(self, token):
        return {"[MASK]": 3, "[PAD]": 0}[token]


class InSave:
    """Counts the file operations of saves, and kills the process at one of them."""

    def __init__(self, trainer, kill_at=None, only_step=None):
        self.count, self.kill_at, self.only_step, self.trainer = 0, kill_at, only_step, trainer
        self.saving = False
        save, fsync = trainer._save_checkpoint, os.fsync

        def watched(model, trial):
            self.saving = only_step in (None, trainer.state.global_step)
            save(model, trial)
            self.saving = False

        def synced(descriptor):
            self.happened()
            fsync(descriptor)

        trainer._save_checkpoint, os.fsync = watched, synced
        transformers.utils.logging.disable_progress_bar()
        sys.addaudithook(lambda event, words: self.happened() if self.saving and event in FILE_EVENTS else None)

    def happened(self):
        if not self.saving:
            return
        self.count += 1
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class Mark(TrainerCallback):
    """Tells the parent, through a file, whether a step or a save is going on."""

    def __init__(self, path, trainer):
        self.path = path
        save = trainer._save_checkpoint

        def marked(model, trial):
            self.say("save")
            save(model, trial)
            self.say("step")

        trainer._save_checkpoint = marked

    def say(self, what):
        self.path.write_text(what)

    def on_train_begin(self, args, state, control, **_):
        self.say("step")


def state_of(trainer):
    """A hash of all that a training has made: weights, moments, rates, and logged losses, which tell of the order."""
    digest = hashlib.sha256()
    for name, tensor in sorted(trainer.model.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    for key, moments in trainer.optimizer.state_dict()["state"].items():
        for name in sorted(moments):
            digest.update(f"{key}{name}".encode() + moments[name].contiguous().numpy().tobytes())
    rates = {name: value for name, value in trainer.lr_scheduler.state_dict().items() if not name.startswith("_")}
    losses = [(line["step"], line["loss"]) for line in trainer.state.log_history if "loss" in line]
    digest.update(json.dumps([rates, losses], default=str, sort_keys=True).encode())
    return digest.hexdigest()


def forked(work):
    """Run ``work`` in a process of its own; its number. The child never returns."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        work()
        os._exit(0)
    except BaseException as error:
        with open(os.environ.get("KILL_ERRORS", os.devnull), "a") as file:
            traceback.print_exception(error, file=file)
        os._exit(1)


def ended(child):
    """Wait for a child; its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def train(task, folder, result, watch=None):
    """Train from the newest whole checkpoint, or from the start, to the end; writes the hash of the end."""
    trainer = trainer_of(task, folder)
    trainer.recovery.one_run = True
    if watch:
        watch(trainer)
    found, skipped = checkpoint.newest_whole(folder)
    trainer.train(resume_from_checkpoint=str(found) if found else None)
    drawn = hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()
    text = json.dumps(
        {"end": state_of(trainer), "random": drawn, "from": found.name if found else None, "skipped": len(skipped)}
    )
    result.write_text(text)


class Killing:
    """Kills trainings of one task and compares each end with the undisturbed one.

    Args:
        task: One of TASKS.
        root: An empty folder.
    """

    def __init__(self, task, root, seed=0):
        self.task, self.root = task, root
        self.random = random.Random(f"{task}-{seed}")
        counted = root / "events"

        def count(trainer):
            self.watch = InSave(trainer)

        def work():
            train(task, root / "whole", root / "whole.json", count)
            counted.write_text(str(self.watch.count))

        began = time.monotonic()
        assert ended(forked(work)) == 0
        self.seconds = time.monotonic() - began
        self.events = int(counted.read_text())  # file operations of all saves
        self.expected = json.loads((root / "whole.json").read_text())

    def trial(self, number, in_save):
        """One kill and one resume; what happened, as plain values."""
        folder, result = self.root / f"run-{number}", self.root / f"end-{number}.json"
        if in_save:
            at = self.random.randint(1, self.events)
            code = ended(forked(lambda: train(self.task, folder, result, lambda t: InSave(t, at))))
            where = "save"
        else:
            code, where = self._killed_by_time(folder, result)
        resumed = ended(forked(lambda: train(self.task, folder, result)))
        found = json.loads(result.read_text()) if resumed == 0 else {}
        shutil.rmtree(folder, ignore_errors=True)
        at_end = found.get("from") == f"checkpoint-{STEPS}"  # nothing is left to draw random numbers for
        compared = ("end",) if at_end else ("end", "random")
        return {
            "task": self.task,
            "killed": code == -signal.SIGKILL,
            "in": where,
            "from": found.get("from"),
            "resumed": resumed == 0,
            "same": all(found.get(name) == self.expected[name] for name in compared),
        }

    def _killed_by_time(self, folder, result):
        mark = self.root / "mark"
        mark.write_text("")
        child = forked(
            lambda: train(self.task, folder, result, lambda trainer: trainer.add_callback(Mark(mark, trainer)))
        )
        time.sleep(self.random.uniform(0, self.seconds))
        os.kill(child, signal.SIGKILL)
        return ended(child), mark.read_text() or "start"

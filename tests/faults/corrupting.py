"""Damage of every kind to checkpoints that a real training wrote: is it found, named, and survived?

A trial takes a run with two or more checkpoints, damages the newest, and asks for the newest whole one. Damage is
*found* if the newest is not taken, *named* if the reason names a file that was damaged, and *survived* if the older
one is taken in its place.
"""

import json
import random
import shutil

import torch
from faulty import bert, rows_of, trainer_in

from trainwright.train import checkpoint

STEPS = (2, 4)  # of the checkpoints in a run
MANIFEST = "manifest.json"


def make_run(folder):
    """A run of a few steps with a checkpoint at each of STEPS."""
    torch.manual_seed(0)
    trainer_in(folder, bert(), rows_of(20), max_steps=STEPS[-1]).train()
    return folder


# -- kinds of damage: each takes the newest checkpoint and a source of chance, and gives the files it has damaged ------


def flip(newest, chance):
    """One bit of a file."""
    path = chance.choice(files_of(newest))
    content = bytearray(path.read_bytes())
    bit = chance.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    return [path.name]


def burst(newest, chance):
    """A block of zeros, as a bad sector leaves it; of a size that is not all zeros by nature."""
    path = chance.choice([path for path in files_of(newest) if any(path.read_bytes())])
    content = bytearray(path.read_bytes())
    places = [place for place, byte in enumerate(content) if byte]
    begin = chance.choice(places)
    end = min(len(content), begin + chance.randint(1, 512))
    content[begin:end] = bytes(end - begin)
    path.write_bytes(content)
    return [path.name]


def truncate(newest, chance):
    path = chance.choice(files_of(newest))
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(1, len(content))])
    return [path.name]


def empty(newest, chance):
    path = chance.choice(files_of(newest))
    path.write_bytes(b"")
    return [path.name]


def longer(newest, chance):
    path = chance.choice(files_of(newest))
    path.write_bytes(path.read_bytes() + bytes([chance.randrange(1, 256)]))  # not white space only
    return [path.name]


def missing(newest, chance):
    path = chance.choice(files_of(newest))
    path.unlink()
    return [path.name]


def older_file(newest, chance):
    """A file of the checkpoint before, as a restored backup mixes them. Files that are the same do no harm."""
    before = newest.with_name(f"checkpoint-{STEPS[-2]}")
    differ = [p for p in files_of(newest) if p.read_bytes() != (before / p.name).read_bytes()]
    path = chance.choice(differ)
    shutil.copyfile(before / path.name, path)
    return [path.name]


def swapped(newest, chance):
    """Two files of the checkpoint under each other's name."""
    one, other = chance.sample(files_of(newest), 2)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    return [one.name, other.name]


def unlisted(newest, chance):
    """A file gone, and gone from the manifest too."""
    listed = json.loads((newest / MANIFEST).read_text())
    name = chance.choice(sorted(listed["files"]))
    del listed["files"][name]
    (newest / name).unlink()
    (newest / MANIFEST).write_text(json.dumps(listed))
    return [name, MANIFEST]


def manifest_emptied(newest, chance):
    text = chance.choice(["", "{}", "null", "[]", '{"files": {}}', '{"format": 2, "files": {}}', "0", '"files"'])
    (newest / MANIFEST).write_text(text)
    return [MANIFEST]


def manifest_of_other_step(newest, chance):
    listed = json.loads((newest / MANIFEST).read_text())
    listed["step"] = chance.choice([listed["step"] + 1, 0, None, str(listed["step"]), STEPS[0]])
    (newest / MANIFEST).write_text(json.dumps(listed))
    return [MANIFEST]


def renamed(newest, chance):
    """The folder under the number of another step: it is found as the newest, and is not what its name says."""
    newest.rename(newest.with_name(f"checkpoint-{STEPS[-1] + chance.randint(1, 99)}"))
    return [MANIFEST, "trainer_state.json"]


def renamed_back(newest, chance):
    """An older folder in the place of the newest one, which is lost."""
    shutil.rmtree(newest)
    shutil.copytree(newest.with_name(f"checkpoint-{STEPS[-2]}"), newest)
    return [MANIFEST, "trainer_state.json"]


KINDS = (
    flip, burst, truncate, empty, longer, missing, older_file, swapped, unlisted,
    manifest_emptied, manifest_of_other_step, renamed, renamed_back,
)  # fmt: skip


def files_of(folder):
    return sorted(path for path in folder.iterdir() if path.is_file())


def trial(run, place, number):
    """One corruption of a copy of a run; what came of it, as plain values."""
    chance = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(run, place)
    damaged = kind(place / f"checkpoint-{STEPS[-1]}", chance)
    found, skipped = checkpoint.newest_whole(place)
    reasons = " ".join(reason for _folder, reason in skipped)
    return {
        "kind": kind.__name__,
        "files": damaged,
        "reason": reasons,
        "found": len(skipped) == 1,
        "named": any(name in reasons for name in damaged),
        "survived": found == place / f"checkpoint-{STEPS[-2]}",
    }

"""What tells a whole checkpoint from a damaged one: ``manifest.json`` lists every file with its size and SHA-256.

A checkpoint of ours also holds ``trainwright.json`` (see :mod:`trainwright.runs.resume`), so one whose manifest was
lost is told from one that transformers wrote, which never had any.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from trainwright.records import read_json, write_json
from trainwright.runs.resume import CONTEXT

MANIFEST = "manifest.json"

# 1: files only; 2: also the step, a hash of the list itself, and trainwright.json beside it
MANIFEST_FORMAT = 2
STATE = "trainer_state.json"
# What a resume needs, by patterns of file names. Without one of them it would start over silently, with other weights,
# another rate, order or momentum. A rank of several has a random state of its own.
NEEDED: dict[str, tuple[str, ...]] = {
    "model.safetensors": ("model*.safetensors", "adapter_model*.safetensors", "pytorch_model*"),
    "optimizer.pt": ("optimizer.pt", "optimizer.bin", "optimizer_*"),
    "scheduler.pt": ("scheduler.pt",),
    "rng_state.pth": ("rng_state*.pth",),
    STATE: (STATE,),
}
_UNREADABLE = (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError, ValueError)


def write_manifest(folder: Path, step: int | None = None) -> None:
    """Sync every file of a folder and write ``manifest.json`` with its size in bytes and SHA-256.

    Args:
        step: Optimizer steps done, of a checkpoint.
    """
    files = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST):
        sync(path)
        files[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    listed = {"format": MANIFEST_FORMAT, "step": step, "files": files}
    write_json(folder / MANIFEST, listed | {"sha256": _hash_of(listed)})
    sync(folder)


def problem_of(folder: Path) -> str | None:
    """Why a checkpoint cannot be trusted, or None if it can; the file that is damaged is named.

    A folder that transformers wrote, without a manifest, passes unverified if it holds what an exact resume needs.
    """
    if not folder.is_dir():
        return "there is no such folder"
    if (folder / MANIFEST).is_file():
        return _problem_with_manifest(folder)
    if (folder / CONTEXT).is_file():
        return f"{MANIFEST} is missing"
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return _missing(names) or _shards_missing(folder, names) or _problem_with_step(folder)


def is_verified(folder: Path) -> bool:
    """Whether every file of a checkpoint was compared with its manifest and none differs. Reads all of them."""
    return (folder / MANIFEST).is_file() and problem_of(folder) is None


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, as hexadecimal text."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_text(text: str) -> str:
    """SHA-256 of a text in UTF-8, as hexadecimal text."""
    return hashlib.sha256(text.encode()).hexdigest()


def step_of(folder: Path) -> int | None:
    """The step in the name of a checkpoint folder; None for another name."""
    match = re.fullmatch(r"checkpoint-(\d+)", folder.name)
    return int(match[1]) if match else None


def sync(path: Path) -> None:
    """Have the system write a file, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _problem_with_manifest(folder: Path) -> str | None:
    try:
        manifest = read_json(folder / MANIFEST)
        files, written = manifest["files"], manifest["format"]
        if written not in (1, MANIFEST_FORMAT) or not isinstance(files, dict):
            return f"{MANIFEST} is damaged"
        if written == MANIFEST_FORMAT and manifest.pop("sha256") != _hash_of(manifest):
            return f"{MANIFEST} is damaged"
        if written == MANIFEST_FORMAT and manifest["step"] != step_of(folder):
            return f"{MANIFEST} is that of step {manifest['step']}"
        changed = (f"{name} {problem}" for name in files if (problem := _file_problem(folder / name, files[name])))
        return next(changed, None) or _unlisted(folder, set(files), written) or _problem_with_step(folder)
    except _UNREADABLE:
        return f"{MANIFEST} is damaged"


def _hash_of(listed: dict[str, Any]) -> str:
    return sha256_of_text(json.dumps(listed, sort_keys=True))


def _file_problem(path: Path, expected: dict[str, Any]) -> str | None:
    size, sha256 = expected["bytes"], expected["sha256"]
    if not path.is_file():
        return "is missing"
    if path.stat().st_size != size:
        return f"has {path.stat().st_size} bytes, not {size}"
    if sha256_of(path) != sha256:
        return "has another content than was saved"
    return None


def _unlisted(folder: Path, listed: set[str], written: int) -> str | None:
    """What the manifest must list and does not."""
    missing = _missing(listed) or (f"{CONTEXT} is missing" if written > 1 and CONTEXT not in listed else None)
    return f"{missing} in {MANIFEST}" if missing else _shards_missing(folder, listed)


def _missing(names: Collection[str]) -> str | None:
    tops = {name.partition("/")[0] for name in names}
    lost = [usual for usual, known in NEEDED.items() if not any(fnmatch(top, one) for top in tops for one in known)]
    return f"{', '.join(lost)} is missing" if lost else None


def _shards_missing(folder: Path, names: Collection[str]) -> str | None:
    """Shards of the weights that their index names."""
    for index in folder.glob("*.index.json"):
        try:
            shards = set(read_json(index)["weight_map"].values())
        except _UNREADABLE:
            return f"{index.name} is damaged"
        lost = sorted(shards - set(names))
        if lost:
            return f"{', '.join(lost)} is missing"
    return None


def _problem_with_step(folder: Path) -> str | None:
    """Whether the folder's name is that of another step, as after a renaming."""
    try:
        step = read_json(folder / STATE)["global_step"]
    except _UNREADABLE:
        return f"{STATE} is damaged"
    return None if step == step_of(folder) else f"{STATE} is that of step {step}"

"""Checkpoints that are whole or absent: staged, synced, hashed, listed in a manifest, then renamed into place.

A checkpoint is Hugging Face's own folder (``checkpoint-500/``) plus ``manifest.json``. A kill at any moment leaves the
older checkpoints as they were and at most a staging folder, which the next save clears away.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

from trainwright.records import FORMAT, read_json, write_json
from trainwright.units import format_bytes

MANIFEST = "manifest.json"
_STAGING = ".staging"
_REPLACED = "replaced"
SPARE_BYTES = 1 << 20  # for the small files of a checkpoint, and the journal beside it
SPARE_FILES = 32
# A pickle that may hold tokens and paths, and that nothing needs for resuming.
_LEFT_OUT = ("training_args.bin",)
# Without these a resume would start over silently with another learning rate, order or momentum.
_NEEDED = ("trainer_state.json", "optimizer.pt", "scheduler.pt")


class Staged:
    """A checkpoint being written.

    Args:
        root: Folder that holds the checkpoints.
        step: Optimizer steps done.
        writer: Whether this process writes the shared files (rank 0).
    """

    def __init__(self, root: Path, step: int, writer: bool = True) -> None:
        self.folder = root / _STAGING
        self.checkpoint = self.folder / f"checkpoint-{step}"
        self.final = root / f"checkpoint-{step}"
        if writer:
            clear_staging(root)
            self.checkpoint.mkdir(parents=True)

    def publish(self) -> None:
        """Sync, hash and list every file, then rename the folder into place."""
        for name in _LEFT_OUT:
            (self.checkpoint / name).unlink(missing_ok=True)
        write_manifest(self.checkpoint)
        if self.final.exists():  # the same step saved again after a resume: the new one replaces it
            replaced = self.folder / _REPLACED / self.final.name
            replaced.parent.mkdir()
            os.rename(self.final, replaced)
        os.rename(self.checkpoint, self.final)
        _sync(self.final.parent)
        shutil.rmtree(self.folder, ignore_errors=True)


def clear_staging(root: Path) -> None:
    """Remove what a save that failed or was killed left; a checkpoint that it was about to replace comes back."""
    for folder in list_checkpoints(root / _STAGING / _REPLACED):
        if not (root / folder.name).exists():
            os.rename(folder, root / folder.name)
            _sync(root)
    shutil.rmtree(root / _STAGING, ignore_errors=True)


def check_space(root: Path, needed: int) -> None:
    """Refuse a save that cannot fit, before anything is written.

    Args:
        needed: Bytes of the checkpoint.

    Raises:
        OSError: ENOSPC, with the bytes or files that are free.
    """
    root.mkdir(parents=True, exist_ok=True)
    clear_staging(root)
    space = os.statvfs(root)
    free = space.f_bavail * space.f_frsize
    if free < needed + SPARE_BYTES:
        raise OSError(errno.ENOSPC, f"{format_bytes(needed)} are needed and {format_bytes(free)} are free", str(root))
    if space.f_files and space.f_favail < SPARE_FILES:  # some file systems have no fixed number of files
        raise OSError(errno.ENOSPC, f"room for {space.f_favail} more files only", str(root))


def write_manifest(folder: Path) -> None:
    """Sync every file of a folder and write ``manifest.json`` with its size in bytes and SHA-256."""
    files = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST):
        _sync(path)
        files[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    write_json(folder / MANIFEST, {"format": FORMAT, "files": files})
    _sync(folder)


def problem_of(folder: Path) -> str | None:
    """Why a checkpoint cannot be trusted, or None if it can.

    A folder without a manifest (written by transformers itself) passes, unverified, if the files that an exact resume
    needs are there.
    """
    if not folder.is_dir():
        return "there is no such folder"
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if missing:
        return f"{', '.join(missing)} is missing"
    try:
        manifest = read_json(folder / MANIFEST)
        files = manifest["files"] if manifest else {}
        for name, expected in files.items():
            problem = _file_problem(folder / name, expected)
            if problem:
                return f"{name} {problem}"
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST} is damaged"
    return None


def is_verified(folder: Path) -> bool:
    """Whether the checkpoint has a manifest, so that :func:`problem_of` compared every file with it."""
    return (folder / MANIFEST).is_file()


def newest_whole(root: Path) -> tuple[Path | None, list[tuple[Path, str]]]:
    """The newest checkpoint, by step number, that is whole; and the newer ones that are not, with the reason."""
    clear_staging(root)
    skipped: list[tuple[Path, str]] = []
    for folder in reversed(list_checkpoints(root)):
        problem = problem_of(folder)
        if problem is None:
            return folder, skipped
        skipped.append((folder, problem))
    return None, skipped


def list_checkpoints(root: Path) -> list[Path]:
    """Checkpoint folders below ``root`` by step number, oldest first. File times play no part."""
    if not root.is_dir():
        return []
    return sorted((path for path in root.iterdir() if _step_of(path) is not None), key=lambda path: _step_of(path) or 0)


def rotate(root: Path, keep: int | None, best_step: int | None) -> list[Path]:
    """Delete the oldest checkpoints beyond ``keep``; the newest and the best always stay.

    Args:
        keep: Checkpoints to keep; None or less than 1 keeps all.
        best_step: Step of the best checkpoint, or None.

    Returns:
        The folders that were deleted.
    """
    folders = list_checkpoints(root)
    doomed = to_delete([_step_of(folder) or 0 for folder in folders], keep, best_step)
    deleted = [folder for folder in folders if _step_of(folder) in doomed]
    for folder in deleted:
        shutil.rmtree(folder)
    return deleted


def to_delete(steps: list[int], keep: int | None, best_step: int | None) -> set[int]:
    """The steps whose checkpoints a rotation deletes: all but the newest ``keep``, the newest one and the best."""
    if keep is None or keep < 1 or not steps:
        return set()
    ordered = sorted(steps)
    kept = {ordered[-1], best_step}
    for step in reversed(ordered):
        if len(kept & set(ordered)) >= max(keep, len({ordered[-1], best_step} & set(ordered))):
            break
        kept.add(step)
    return set(ordered) - kept


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, as hexadecimal text."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _file_problem(path: Path, expected: dict) -> str | None:
    if not path.is_file():
        return "is missing"
    if path.stat().st_size != expected["bytes"]:
        return f"has {path.stat().st_size} bytes, not {expected['bytes']}"
    if sha256_of(path) != expected["sha256"]:
        return "has another content than was saved"
    return None


def _step_of(path: Path) -> int | None:
    match = re.fullmatch(r"checkpoint-(\d+)", path.name)
    return int(match[1]) if match and path.is_dir() else None


def _sync(path: Path) -> None:
    """Have the system write a file, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

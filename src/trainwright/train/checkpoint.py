"""Checkpoints that are whole or absent: staged, synced, hashed, listed in a manifest, then renamed into place.

A checkpoint is Hugging Face's own folder (``checkpoint-500/``) plus ``trainwright.json`` and ``manifest.json``. A kill
at any moment leaves the older checkpoints as they were and at most a staging folder, which the next save clears away.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

from trainwright.records import FORMAT, write_json
from trainwright.train.manifest import CONTEXT, problem_of, step_of, sync, write_manifest
from trainwright.units import format_bytes

_STAGING = ".staging"
_REPLACED = "replaced"
SPARE_BYTES = 1 << 20  # for the small files of a checkpoint, and the journal beside it
SPARE_FILES = 32
# A pickle that may hold tokens and paths, and that nothing needs for resuming.
_LEFT_OUT = ("training_args.bin",)


class Staged:
    """A checkpoint being written.

    Args:
        root: Folder that holds the checkpoints.
        step: Optimizer steps done.
        writer: Whether this process writes the shared files (rank 0).
    """

    def __init__(self, root: Path, step: int, writer: bool = True) -> None:
        self.step = step
        self.folder = root / _STAGING
        self.checkpoint = self.folder / f"checkpoint-{step}"
        self.final = root / f"checkpoint-{step}"
        if writer:
            clear_staging(root)
            self.checkpoint.mkdir(parents=True)

    def publish(self, context: dict[str, Any] | None = None) -> None:
        """Sync, hash and list every file, then rename the folder into place.

        Args:
            context: What the run was when it was saved; see :mod:`trainwright.runs.resume`.
        """
        for name in _LEFT_OUT:
            (self.checkpoint / name).unlink(missing_ok=True)
        write_json(self.checkpoint / CONTEXT, {"format": FORMAT, "step": self.step} | (context or {}))
        write_manifest(self.checkpoint, self.step)
        if self.final.exists():  # the same step saved again after a resume: the new one replaces it
            replaced = self.folder / _REPLACED / self.final.name
            replaced.parent.mkdir()
            os.rename(self.final, replaced)
        os.rename(self.checkpoint, self.final)
        sync(self.final.parent)
        shutil.rmtree(self.folder, ignore_errors=True)


def clear_staging(root: Path) -> None:
    """Remove what a save that failed or was killed left; a checkpoint that it was about to replace comes back."""
    for folder in list_checkpoints(root / _STAGING / _REPLACED):
        if not (root / folder.name).exists():
            os.rename(folder, root / folder.name)
            sync(root)
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
    return sorted(_folders(root), key=lambda path: step_of(path) or 0)


def rotate(root: Path, keep: int | None, best_step: int | None, saved_step: int | None = None) -> list[Path]:
    """Delete the oldest checkpoints beyond ``keep``; the newest, the best and the one just saved always stay.

    Args:
        saved_step: Step of the checkpoint just saved. Folders of higher steps may be left from a broken past that a
            resume skipped, so the newest by number need not be the newest that is whole.
        keep: Checkpoints to keep; None or less than 1 keeps all.
        best_step: Step of the best checkpoint, or None.

    Returns:
        The folders that were deleted.
    """
    folders = list_checkpoints(root)
    doomed = to_delete([step_of(folder) or 0 for folder in folders], keep, best_step) - {saved_step}
    deleted = [folder for folder in folders if step_of(folder) in doomed]
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


def _folders(root: Path) -> list[Path]:
    return [path for path in root.iterdir() if step_of(path) is not None and path.is_dir()]

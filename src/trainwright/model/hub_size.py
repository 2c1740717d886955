"""How large a model on a hub is, before anything of it is fetched."""

from __future__ import annotations

from urllib.parse import quote

from trainwright.model.hub import CONNECT_SECONDS, DEFAULT_REVISION, READ_SECONDS, Door, token_for


def listed_parameters(door: Door, model: str, revision: str | None) -> int | None:
    """The number of parameters that Hugging Face lists for a model with safetensors; None if it lists none.

    Args:
        door: Whom to ask. ModelScope lists none.
        model: Id without revision.
    """
    import httpx2

    if door.hub == "modelscope":
        return None
    token = token_for(door)
    address = f"{door.endpoint}/api/models/{model}/revision/{quote(revision or DEFAULT_REVISION[door.hub], safe='')}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    try:
        answer = httpx2.get(address, headers=headers, timeout=timeout, follow_redirects=True)
        total = answer.json()["safetensors"]["total"]
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return None
    return total if isinstance(total, int) and total > 0 else None

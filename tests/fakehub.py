"""A hub on this machine: real sockets, the protocol of Hugging Face and of ModelScope, and every way to go wrong.

Weights are answered with a redirect to a second server on another port, as the real hub sends them to its storage.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = "someone/tiny"


class FakeHub:
    """Serves ``files`` (name -> bytes) as one model, and does what the attributes say.

    Attributes:
        refuse: (status, X-Error-Code) for everything, or None.
        busy: How many requests for files are answered with 429 before one is served.
        cuts: For each of the next answers of the storage: the bytes after which the connection breaks.
        damaged: How many answers of the storage have one byte flipped.
        ranges: Whether Range is respected.
        weights: "here", "missing" (404), "pointer", "page", or "elsewhere" (a storage that does not listen).
        requests: (server, path, headers) of every request.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.refuse: tuple[int, str] | None = None
        self.busy = 0
        self.cuts: list[int] = []
        self.damaged = 0
        self.ranges = True
        self.weights = "here"
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self._servers = [_serve(self, "hub"), _serve(self, "storage")]
        self.endpoint, self.storage = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def ranges_asked(self) -> list[str | None]:
        """The Range header of every request to the storage, probes aside."""
        asked = [headers.get("range") for server, _path, headers in self.requests if server == "storage"]
        return [value for value in asked if value != "bytes=0-15"]

    def is_large(self, name: str) -> bool:
        return name.endswith((".safetensors", ".bin"))

    # -- what is answered ------------------------------------------------------------------------------------------

    def answer(self, server: str, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body; a body of b"" with status 302 is a redirect."""
        if self.refuse and server == "hub":
            status, code = self.refuse
            return status, {"X-Error-Code": code} if code else {}, b'{"error": "no"}'
        if server == "storage":
            return 200, {}, self.files[path.lstrip("/")]
        if path.startswith("/api/v1/"):
            return self._modelscope(path, query)
        if path.startswith("/api/models/"):
            return self._listing(path)
        found = re.fullmatch(rf"/{MODEL}/resolve/([^/]+)/(.+)", path)
        if not found:
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        return self._file(*found.groups())

    def _listing(self, path: str) -> tuple[int, dict[str, str], bytes]:
        if not path.startswith(f"/api/models/{MODEL}"):
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        siblings = []
        for name, content in self.files.items():
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            sibling = {"rfilename": name, "size": len(content), "blobId": blob}
            if self.is_large(name):
                digest = hashlib.sha256(content).hexdigest()
                sibling["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 134}
            siblings.append(sibling)
        return 200, {}, json.dumps({"id": MODEL, "sha": COMMIT, "siblings": siblings}).encode()

    def _file(self, revision: str, name: str) -> tuple[int, dict[str, str], bytes]:
        if revision not in ("main", COMMIT):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        if name not in self.files:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        if not self.is_large(name):
            return 200, {"X-Repo-Commit": COMMIT}, self.files[name]
        if self.weights == "missing":
            return 404, {}, b""
        if self.weights == "pointer":
            return 200, {}, b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 5\n"
        if self.weights == "page":
            return 200, {}, b"<!DOCTYPE html><title>Please log in</title>"
        storage = "http://127.0.0.1:1" if self.weights == "elsewhere" else self.storage
        return 302, {"Location": f"{storage}/{name}", "X-Repo-Commit": COMMIT}, b""

    def _modelscope(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
        if path == f"/api/v1/models/{MODEL}/repo/files":
            files = [
                {"Path": name, "Name": name, "Type": "blob", "Size": len(c), "Sha256": hashlib.sha256(c).hexdigest()}
                for name, c in self.files.items()
            ]
            return 200, {}, json.dumps({"Code": 200, "Success": True, "Data": {"Files": files}}).encode()
        name = query.get("FilePath", [""])[0]
        if path == f"/api/v1/models/{MODEL}/repo" and name in self.files:
            return 200, {}, self.files[name]
        return 404, {}, b'{"Code": 404, "Success": false, "Message": "not found"}'


def _serve(hub: FakeHub, name: str) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub, "name": name}))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    name: str
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.hub.requests.append((self.name, self.path, headers))
        if self.hub.busy and "/api/" not in self.path and headers.get("range") != "bytes=0-15":
            self.hub.busy -= 1
            self._send(429, {"Retry-After": "0"}, b"")
            return
        status, extra, body = self.hub.answer(self.name, unquote(parts.path), parse_qs(parts.query))
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", "")) if self.hub.ranges else None
        if status == 200 and asked:
            status, extra, body = self._part(int(asked[1]), asked[2], extra, body)
        self._send(status, extra, body, breaks=self._cut(headers))

    do_HEAD = do_GET  # noqa: N815

    def _part(self, first: int, last: str, extra: dict, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if first >= len(body):
            return 416, {"Content-Range": f"bytes */{len(body)}"}, b""
        end = min(int(last) + 1 if last else len(body), len(body))
        return 206, extra | {"Content-Range": f"bytes {first}-{end - 1}/{len(body)}"}, body[first:end]

    def _cut(self, headers: dict[str, str]) -> int | None:
        """Bytes after which this answer breaks; probes are left alone."""
        is_probe = headers.get("range") == "bytes=0-15"
        return self.hub.cuts.pop(0) if self.name == "storage" and self.hub.cuts and not is_probe else None

    def _send(self, status: int, extra: dict, body: bytes, breaks: int | None = None) -> None:
        if self.name == "storage" and self.hub.damaged and len(body) > 16:
            self.hub.damaged -= 1
            body = bytes([body[0] ^ 1]) + body[1:]
        self.send_response(status)
        for key, value in extra.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body if breaks is None else body[:breaks])
        if breaks is not None:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def fake_hub() -> Iterator[FakeHub]:
    """A hub without files; a test fills it."""
    hub = FakeHub()
    yield hub
    hub.close()


@pytest.fixture
def fake_mirror() -> Iterator[FakeHub]:
    """A second hub."""
    hub = FakeHub()
    yield hub
    hub.close()


def files_of(folder) -> dict[str, bytes]:
    """The files of a model folder, as a hub serves them."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}

"""What leads out: proxies and mirrors in force, which hub answers by which road, ports, and the clock.

Every question has a short time to be answered, all are asked at once, and no address is shown with credentials in it.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # its stub leaves it out

import psutil

from trainwright.doctor.records import Network, Port, Road, Weights
from trainwright.machine.look import ROOT

if TYPE_CHECKING:
    import httpx2

SECONDS = 2.2  # for all answers together; the import of torch takes as long
CONNECT_SECONDS = 1.5
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
MIRRORS = ("HF_ENDPOINT", "TRAINWRIGHT_HF_MIRROR", "MODELSCOPE_ENDPOINT", "PIP_INDEX_URL", "UV_DEFAULT_INDEX")
PROXIES = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
LOCAL = ("localhost", "127.0.0.1")
PORTS = (6006, 6008)  # those that AutoDL publishes; 6006 is TensorBoard's own everywhere
# Written by the platform; it holds credentials as well, so nothing but these names is read from it
ADDRESS_VARIABLES = {6006: ("AutoDLService6006URL", "AutoDLServiceURL"), 6008: ("AutoDLService6008URL",)}


@dataclass(frozen=True)
class Hub:
    """A hub that may be asked.

    Attributes:
        name: As in the recipe's ``hub:``.
        ask: Asks it for the recipe's model; None where no model has to be fetched.
    """

    name: str
    endpoint: str
    ask: Callable[[], Weights] | None = None


@dataclass
class Answers:
    """What has come in so far; threads add to it, and whoever waits long enough takes what is there."""

    roads: list[Road] = field(default_factory=list)
    weights: list[Weights] = field(default_factory=list)
    proxy_errors: dict[str, str] = field(default_factory=dict)
    threads: list[threading.Thread] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    def start(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do something beside the rest; a thread that gets no answer ends with the process."""
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until all is answered, or until this many seconds after the start."""
        for thread in self.threads:
            thread.join(max(0.0, self.begun + seconds - time.monotonic()))


def start_network(hubs: Sequence[Hub], environment: Mapping[str, str]) -> Answers:
    """Begin to ask every hub, and every proxy whether it answers."""
    answers = Answers()
    for name, address in proxies_in(environment).items():
        answers.start(_ask_proxy, name, address, answers)
    for hub in [] if offline_by(environment) else hubs:
        proxy = proxy_for(hub.endpoint, environment)
        answers.start(_ask_hub, hub, proxy, answers)
        if proxy:
            answers.start(_ask_past_proxy, hub, answers)
    return answers


def see_network(
    answers: Answers, environment: Mapping[str, str], seconds: float = SECONDS, root: Path = ROOT
) -> Network:
    """What was answered within the time given, beside what the environment says."""
    answers.wait(seconds)
    return Network(
        proxies={name: masked(address) for name, address in proxies_in(environment).items()},
        proxy_errors=dict(answers.proxy_errors),
        local_exempt=all(proxy_for(f"http://{host}", environment) is None for host in LOCAL),
        mirrors={name: masked(environment[name]) for name in MIRRORS if environment.get(name)},
        offline=offline_by(environment),
        roads=list(answers.roads),
        weights=list(answers.weights),
        ports=[see_port(number, environment, root) for number in PORTS],
    )


def _ask_proxy(name: str, address: str, answers: Answers) -> None:
    answers.proxy_errors[name] = proxy_error(address)


def _ask_hub(hub: Hub, proxy: str | None, answers: Answers) -> None:
    """The road that a run would take, and on it the recipe's model."""
    road = ask_road(hub, proxy)
    answers.roads.append(road)
    if not road.error and hub.ask is not None:
        answers.weights.append(hub.ask())


def _ask_past_proxy(hub: Hub, answers: Answers) -> None:
    answers.roads.append(ask_road(hub, None))


# -- addresses -----------------------------------------------------------------------------------------------------


def masked(address: str) -> str:
    """An address without credentials: what stands before the host, and what comes behind the path.

    An @ within a password is part of it, so everything up to the last one is left out.
    """
    address = re.sub(r"^(\w+://)?\S*@", lambda match: f"{match[1] or ''}***@", address.strip())
    return re.sub(r"[?#].*", "", address)


def proxies_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The proxies in force, by variable: the name in small letters wins over the one in capitals."""
    found = {}
    for name in PROXIES:
        if environment.get(name) and name.lower() not in found:
            found[name] = environment[name]
    return found


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy through which an address is asked; None if it is asked directly."""
    parts = urlsplit(url)
    exempt = {"no": environment.get("no_proxy") or environment.get("NO_PROXY") or ""}
    if proxy_bypass_environment(parts.hostname or "", exempt):
        return None
    for name in (f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"):
        if environment.get(name):
            address = environment[name]
            return address if "://" in address else f"http://{address}"
    return None


def offline_by(environment: Mapping[str, str]) -> str:
    """The variable that forbids asking a hub; empty if none does."""
    return next((name for name in OFFLINE if environment.get(name, "").upper() in ("1", "TRUE", "YES", "ON")), "")


# -- questions -----------------------------------------------------------------------------------------------------


def proxy_error(address: str) -> str:
    """Why a proxy takes no connection; empty if it does."""
    parts = urlsplit(address if "://" in address else f"http://{address}")
    try:
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 1080)
        socket.create_connection((parts.hostname or "", port), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        return _said(error)
    return ""


def ask_road(hub: Hub, proxy: str | None) -> Road:
    """Ask a hub for its front page, through a proxy or directly. Any answer of its own counts."""
    import httpx2

    way: Literal["direct", "proxy"] = "proxy" if proxy else "direct"
    try:
        with _client(proxy) as client, client.stream("GET", hub.endpoint) as response:  # its body is not read
            status, date = response.status_code, response.headers.get("Date")
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, ImportError) as error:
        return Road(hub.name, masked(hub.endpoint), way, _said(error))
    failed = status == 407 or status >= 500  # a proxy's refusal, or an answer in a hub's place
    skew = None if failed or not date else _skew(date)
    return Road(hub.name, masked(hub.endpoint), way, f"status {status}" if failed else "", skew)


def _client(proxy: str | None) -> httpx2.Client:
    """A client for one road; a transport of our own keeps the environment's proxies out and its certificates in."""
    import httpx2

    timeout = httpx2.Timeout(SECONDS, connect=CONNECT_SECONDS)
    return httpx2.Client(transport=httpx2.HTTPTransport(proxy=proxy), timeout=timeout)


def _said(error: BaseException) -> str:
    """The error in a line, without credentials."""
    text = re.sub(r"//\S*@", "//***@", str(error).splitlines()[0] if str(error) else "")
    return text or type(error).__name__


def _skew(date: str) -> float | None:
    """Seconds by which the clock of an answer is ahead of ours; None if its date is none."""
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (TypeError, ValueError):
        return None


# -- ports ---------------------------------------------------------------------------------------------------------


def see_port(number: int, environment: Mapping[str, str], root: Path = ROOT) -> Port:
    """Whether a port is free, who listens on it, and where it can be reached from outside."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that was left a moment ago is free
        try:
            probe.bind(("127.0.0.1", number))  # refused, too, where somebody listens on every address
            holder = None
        except OSError:
            holder = _holder(number)
    return Port(number, holder, _address(number, environment, root))


def _holder(number: int) -> str:
    """The process that listens on a port; an empty text where it cannot be seen."""
    try:
        for one in psutil.net_connections(kind="tcp"):
            if one.laddr and one.laddr.port == number and one.status == psutil.CONN_LISTEN and one.pid:
                return f"{psutil.Process(one.pid).name()} {one.pid}"
    except psutil.Error:
        pass
    return ""


def _address(number: int, environment: Mapping[str, str], root: Path) -> str | None:
    """The public address of a port on AutoDL: a variable, or a line of the file that shells there read."""
    names = ADDRESS_VARIABLES.get(number, ())
    given = {name: environment[name] for name in names if environment.get(name)}
    if not given:
        given = _exported(root / "init/others/help", names)
    return next((masked(given[name]) for name in names if name in given), None)


def _exported(file: Path, names: Sequence[str]) -> dict[str, str]:
    """Values of ``export NAME=VALUE`` lines of a file, for these names and no other."""
    if not os.path.isfile(file):
        return {}
    found = {}
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        match = re.match(r"\s*export\s+(\w+)=(.*)", line)
        if match and match[1] in names:
            found[match[1]] = " ".join(shlex.split(match[2], comments=True))
    return {name: value for name, value in found.items() if value}

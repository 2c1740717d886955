"""The work of ``setup.py``: ``.venv`` with the pinned packages, and with the torch that is here if it will do.

A second call with nothing changed returns at once. Only the standard library is used.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from setup import is_accepted
from torch_choice import Build, Card, decide, first_uncovered, refusal

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "trainwright-setup.json"
CONTAINS = {"quickstart": ["quickstart"], "dev": ["quickstart", "dev"]}
ENOUGH_DISK = 8 * 2**30  # bytes; torch with its CUDA libraries unpacks to about 6 GiB
PROGRESS_SECONDS = 15.0

# Run in the Python that is asked about; a torch that is broken counts as none. torch.cuda.get_arch_list() is empty
# where the driver does not answer, so the flags it was compiled with stand in.
PROBE = """
import json, importlib.metadata as metadata, re, torch
flags = torch.cuda.get_arch_list() or (getattr(torch._C, "_cuda_getArchFlags", lambda: "")() or "").split()
if torch.version.cuda: platform = "CUDA " + torch.version.cuda
elif getattr(torch.version, "hip", None): platform = "ROCm " + torch.version.hip
else: platform = "the processor"
names = [re.match(r"[\\w.-]+", line).group() for line in metadata.requires("torch") or []]
cards = range(torch.cuda.device_count()) if torch.version.cuda and torch.cuda.is_available() else []
print(json.dumps({
    "build": {"version": torch.__version__, "platform": platform, "architectures": flags, "requires": names},
    "cards": [[torch.cuda.get_device_name(i), list(torch.cuda.get_device_capability(i))] for i in cards],
}))
"""


def set_up(arguments: list[str]) -> int:
    """Set up, and return the exit code."""
    options = parse(arguments)
    if is_ready(options.extra, options.fresh_torch):
        return 0
    leave_venv(arguments)
    active, seen_by_torch = (None, []) if options.fresh_torch else probe(sys.executable)
    cards = cards_of_driver() or seen_by_torch
    decision = decide(active, cards)
    if decision.refusal:
        return complain(decision.refusal, 2)
    say(f"{decision.because}: {'.venv shares it' if decision.reuse else '.venv gets the pinned one'}.")
    shared = active if decision.reuse else None
    problem = make_venv(shared) or install(options.extra, shared)
    if problem:
        return complain(problem, 1)
    installed, _cards = probe(str(VENV_PYTHON))
    uncovered = first_uncovered(installed, cards) if installed else None
    if installed is None:
        return complain("The torch in .venv does not import; see: .venv/bin/python -c 'import torch'", 1)
    if uncovered is not None:
        return complain(refusal(installed, uncovered), 2)
    write_stamp(options.extra, decision.reuse)
    say("Ready: .venv/bin/trainwright --help")
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="tools/setup.py", description="Make .venv with the pinned packages.")
    parser.add_argument("extra", nargs="?", default="quickstart", choices=sorted(CONTAINS))
    parser.add_argument("--fresh-torch", action="store_true", help="install the pinned torch, do not reuse one")
    return parser.parse_args(arguments)


def say(text: str) -> None:
    print(text, flush=True)


def complain(text: str, exit_code: int) -> int:
    print(text, file=sys.stderr, flush=True)
    return exit_code


# -- the stamp: what .venv was made from ---------------------------------------------------------------------------


def fingerprint() -> str:
    """What an installation depends on: the files that pin it, and where this folder stands (scripts name it)."""
    parts = [(ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    return hashlib.sha256(b"\0".join([*parts, os.fsencode(str(ROOT))])).hexdigest()


def is_ready(extra: str, fresh_torch: bool = False) -> bool:
    """Whether ``.venv`` holds this extra, made from the files as they are now, with a torch of its own if so asked."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    as_asked = extra in stamp["extras"] and not (fresh_torch and stamp["shares_torch"])
    return as_asked and stamp["fingerprint"] == fingerprint() and VENV_PYTHON.exists()


def write_stamp(extra: str, shares_torch: bool) -> None:
    stamp = {"fingerprint": fingerprint(), "extras": CONTAINS[extra], "shares_torch": shares_torch}
    STAMP.write_text(json.dumps(stamp), encoding="utf-8")


# -- what is here --------------------------------------------------------------------------------------------------


def leave_venv(arguments: list[str]) -> None:
    """If this runs in ``.venv`` itself, start again in the Python that ``.venv`` was made with; else return."""
    if Path(sys.prefix).resolve() == VENV.resolve():
        base = getattr(sys, "_base_executable", sys.executable)
        os.execv(base, [base, str(ROOT / "tools" / "setup.py"), *arguments])


def probe(python: str) -> tuple[Build | None, list[Card]]:
    """The torch of a Python and the cards it sees; nothing if torch is absent or does not import."""
    found = subprocess.run([python, "-c", PROBE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if found.returncode != 0:
        return None, []
    facts = json.loads(found.stdout.decode().splitlines()[-1])
    return Build(**facts["build"]), [Card(name, tuple(capability)) for name, capability in facts["cards"]]


def cards_of_driver() -> list[Card]:
    """The cards as the driver shows them; none where it is absent or too old to name their capability."""
    command = ["nvidia-smi", "--query-gpu=compute_cap,name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return visible(read_cards(answer.stdout.decode(errors="replace")), os.environ.get("CUDA_VISIBLE_DEVICES"))


def visible(cards: list[Card], setting: str | None) -> list[Card]:
    """The cards that CUDA_VISIBLE_DEVICES leaves; all where it is not set or names cards by other than numbers."""
    if setting is None:
        return cards
    indices = [part.strip() for part in setting.split(",") if part.strip() not in ("", "-1")]
    if not all(index.isdigit() for index in indices):
        return cards
    return [cards[int(index)] for index in indices if int(index) < len(cards)]


def read_cards(answer: str) -> list[Card]:
    """Read lines such as ``8.9, NVIDIA GeForce RTX 4090``."""
    found = re.findall(r"^(\d+)\.(\d+), *(.+?) *$", answer, re.MULTILINE)
    return [Card(name, (int(major), int(minor))) for major, minor, name in found]


# -- the work ------------------------------------------------------------------------------------------------------


def make_venv(shared: Build | None) -> str:
    """Make ``.venv``, or keep the one that is there if it fits; returns what is wrong, or an empty text."""
    if works() and is_sharing() == (shared is not None):
        return ""
    say(f"Making .venv with Python {'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})")
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    made = subprocess.run(
        command + (["--system-site-packages"] if shared else []), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if made.returncode != 0:
        return "Python could not make .venv:\n" + made.stdout.decode(errors="replace")[-2000:]
    if shared and sys.prefix != sys.base_prefix:
        share_parent_environment()
    return ""


def works() -> bool:
    """Whether ``.venv`` has an accepted Python that starts, and pip."""
    try:
        test = "import sys, pip; print(*sys.version_info[:2])"
        answer = subprocess.run([str(VENV_PYTHON), "-c", test], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return False
    return answer.returncode == 0 and is_accepted(tuple(map(int, answer.stdout.split())))


def is_sharing() -> bool:
    text = (VENV / "pyvenv.cfg").read_text(encoding="utf-8").lower()
    return "include-system-site-packages = true" in text


def share_parent_environment() -> None:
    """Show ``.venv`` the packages of the virtual environment that this runs in; its own flag reaches only the base."""
    import sysconfig

    layout = subprocess.run(
        [str(VENV_PYTHON), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        stdout=subprocess.PIPE,
        check=True,
    )
    Path(layout.stdout.decode().strip(), "active-environment.pth").write_text(
        sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8"
    )


def constraint_lines(text: str, shared: Build | None) -> str:
    """The constraints to install by: those of the file; if torch is shared, without it and what it brought with it."""
    if shared is None:
        return text
    free = {normal(name) for name in (*shared.requires, "torch")}
    kept = [line for line in text.splitlines() if normal(re.split(r"[=<>~! ;]", line)[0]) not in free]
    return "\n".join([*kept, f"torch=={shared.version}", ""])


def normal(name: str) -> str:
    """A package name as indexes compare it: ``Typing_Extensions`` is ``typing-extensions``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def install(extra: str, shared: Build | None) -> str:
    """Install Trainwright with the packages of an extra; returns what is wrong, or an empty text."""
    constraints = VENV / "constraints.txt"
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    constraints.write_text(constraint_lines(pinned, shared), encoding="utf-8")
    say("Installing the pinned packages" + ("" if shared else ", torch among them") + ": some minutes on a first run")
    command = [str(VENV_PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--progress-bar", "off", "-c", str(constraints), "-e", f".[{extra}]"]
    lines, exit_code = run_showing_progress(command)
    return "" if exit_code == 0 else installation_problem(lines)


def run_showing_progress(command: list[str]) -> tuple[list[str], int]:
    """Run pip in this folder; now and then show what it is at.

    Returns:
        Its output (kept in ``.venv/setup.log``), and its exit code.
    """
    log = VENV / "setup.log"
    began = time.monotonic()
    with open(log, "wb") as output, subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as pip:
        while True:
            try:
                pip.wait(PROGRESS_SECONDS)
                return lines_of(log), pip.returncode
            except subprocess.TimeoutExpired:
                at = (lines_of(log) or [""])[-1].strip()
                say(f"  {time.monotonic() - began:4.0f} s  {at[:90]}")


def lines_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines()


def installation_problem(lines: list[str]) -> str:
    """pip's last lines, and what to try."""
    free = shutil.disk_usage(ROOT).free
    advice = [
        "Try this, then run the same command again (what was downloaded is not downloaded twice):",
        "  a slow or blocked network: name a mirror near you, `pip config set global.index-url ADDRESS_OF_THE_MIRROR`",
    ]
    if free < ENOUGH_DISK:
        advice.insert(1, f"  a full disk: {free / 2**30:.1f} GiB are free at {ROOT}, torch for a GPU needs about 8 GiB")
    return "\n".join(["pip could not install the packages. Its last lines:", *lines[-12:], "", *advice])

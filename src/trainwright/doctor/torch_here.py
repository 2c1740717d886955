"""torch: whether it can be imported, and whether this build really computes on the cards that are here."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from trainwright.doctor.builds import covers, served_cuda, torch_fix
from trainwright.doctor.records import Check, Facts, Fix, TorchCard, TorchSeen
from trainwright.messages.text import _
from trainwright.records import Gpu
from trainwright.units import format_seconds

IMPORT_SECONDS = 60.0  # a first import from a network disk takes long; this long helps nobody
SLOW_SECONDS = 15.0


def start_torch() -> subprocess.Popen[str]:
    """Begin to look at torch, in a process of its own."""
    command = [sys.executable, "-m", "trainwright.doctor.torch_child"]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=quiet
    )


def read_torch(child: subprocess.Popen[str], seconds: float = IMPORT_SECONDS) -> TorchSeen:
    """What the child found; what it could not tell before it ended is not available."""
    begun, late = time.monotonic(), False
    try:
        output, _errors = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        output, _errors = child.communicate()
        late = True
    found: dict[str, Any] = {}
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            found |= json.loads(line)
    if late and found.get("version") is None:
        found["error"] = f"no end after {format_seconds(time.monotonic() - begun)}"
    elif child.returncode < 0 and found.get("error"):
        found["error"] = f"{found['error']} ({signal.Signals(-child.returncode).name})"
    elif child.returncode and not found:
        found["error"] = f"the process that imports torch ended with code {child.returncode}"
    known = {field.name for field in fields(TorchSeen)}
    cards = [TorchCard(**card) for card in found.pop("cards", [])]
    return TorchSeen(cards=cards, **{name: value for name, value in found.items() if name in known})


# -- checks --------------------------------------------------------------------------------------------------------


def torch_imports(facts: Facts) -> Iterator[Check]:
    """torch can be imported."""
    seen = facts.torch
    if "torch" not in facts.packages.versions and (seen is None or seen.error):
        yield Check("versions.torch-import", "not available", _("torch is not installed, so it was not tried."))
    elif seen is None:
        yield Check("versions.torch-import", "not available", _("torch was not tried."))
    elif seen.error:
        message = _("torch is installed and cannot be imported: {error}.").format(error=seen.error.rstrip("."))
        yield Check("versions.torch-import", "blocker", message, {"error": seen.error}, _reinstall(facts))
    elif seen.seconds is not None and seen.seconds > SLOW_SECONDS:
        message = _("Importing torch took {time}; every start of a run waits for it.")
        fix = Fix(_("Keep the Python environment on a local disk rather than a network disk."))
        yield Check("versions.torch-import", "note", message.format(time=format_seconds(seen.seconds)), vars(seen), fix)
    else:
        yield Check("versions.torch-import", "ok", _("torch {version} can be imported.").format(version=seen.version))


def _reinstall(facts: Facts) -> Fix:
    """The line for a torch that fits, put over the one that is broken."""
    fix = torch_fix(facts)
    return Fix(_("Install torch anew."), by_hand=fix.by_hand.replace("pip install", "pip install --force-reinstall"))


def tensors_become_arrays(facts: Facts) -> Iterator[Check]:
    """torch and NumPy understand each other."""
    if facts.torch is None or facts.torch.to_numpy is None:
        return
    if not facts.torch.to_numpy:
        yield Check("versions.tensor-array", "ok", _("Tensors become NumPy arrays."))
        return
    numpy = facts.packages.versions.get("numpy", _("none"))
    message = _("torch {torch} cannot turn a tensor into an array of NumPy {numpy}: {error}.").format(
        torch=facts.torch.version, numpy=numpy, error=facts.torch.to_numpy.rstrip(".")
    )
    evidence = {"torch": facts.torch.version, "numpy": numpy, "error": facts.torch.to_numpy}
    yield Check("versions.tensor-array", "blocker", message, evidence, torch_fix(facts))


def build_covers_cards(facts: Facts) -> Iterator[Check]:
    """The build has code for each card; that CUDA is available proves nothing."""
    seen = facts.torch
    if seen is None or seen.error or not facts.machine.gpus:
        return
    if seen.cuda is None:
        message = _("{card} is here, but torch {version} is a build without CUDA.")
        said = message.format(card=facts.machine.gpus[0].name, version=seen.version)
        yield Check("versions.torch-build", _unless_cpu(facts), said, {"torch": seen.version}, torch_fix(facts))
        return
    uncovered = [
        card for card in facts.machine.gpus if card.capability and not covers(seen.architectures, card.capability)
    ]
    for card in uncovered:
        message = _("{card} has compute capability {capability}, which torch {version} (CUDA {cuda}) does not cover.")
        said = message.format(card=card.name, capability=_dotted(card), version=seen.version, cuda=seen.cuda)
        evidence = {"card": card.name, "capability": _dotted(card), "covers": seen.architectures}
        yield Check("versions.torch-build", _unless_cpu(facts), said, evidence, torch_fix(facts))
    if not uncovered:
        message = _("torch {version} (CUDA {cuda}) has code for every card.")
        yield Check("versions.torch-build", "ok", message.format(version=seen.version, cuda=seen.cuda))


def driver_serves_build(facts: Facts) -> Iterator[Check]:
    """The driver is new enough for the CUDA of the build; within one major version any is (minor compatibility)."""
    seen = facts.torch
    if seen is None or seen.cuda is None or not facts.machine.gpus:
        return
    served, built = served_cuda(facts.cards.driver, facts.cards.cuda), int(seen.cuda.split(".")[0])
    driver = facts.cards.driver or facts.machine.gpus[0].driver or "n/a"
    evidence = {"driver": driver, "serves_cuda": served, "built_for_cuda": seen.cuda}
    if served is None:
        message = _("Whether the driver serves CUDA {cuda} cannot be told.").format(cuda=seen.cuda)
        yield Check("versions.driver", "not available", message, evidence)
    elif served < built:
        message = _("The driver {driver} serves CUDA {served} at most, but torch is built for CUDA {cuda}.")
        said = message.format(driver=driver, served=served, cuda=seen.cuda)
        yield Check("versions.driver", _unless_cpu(facts), said, evidence, torch_fix(facts))
    else:
        message = _("The driver {driver} serves CUDA {cuda}.").format(driver=driver, cuda=seen.cuda)
        yield Check("versions.driver", "ok", message, evidence)


def tiny_kernel(facts: Facts) -> Iterator[Check]:
    """One small product was really computed on each card."""
    seen = facts.torch
    if seen is None or seen.error or seen.cuda is None or not facts.machine.gpus:
        return
    if not seen.cards:
        message = _("The driver shows {card}, but torch can open no card.").format(card=facts.machine.gpus[0].name)
        yield Check("versions.kernel", _unless_cpu(facts), message, fix=torch_fix(facts))
    for card in seen.cards:
        if card.error:
            message = _("A tiny computation on {card} failed: {error}.")
            said = message.format(card=card.name, error=card.error.rstrip("."))
            evidence = {"card": card.index, "error": card.error}
            yield Check("versions.kernel", _unless_cpu(facts), said, evidence, _kernel_fix(facts))
        else:
            message = _("A tiny computation on {card} came out right.").format(card=card.name)
            yield Check("versions.kernel", "ok", message, {"card": card.index})


def _kernel_fix(facts: Facts) -> Fix:
    """Another build where this one does not fit; otherwise the card or its driver is at fault, not torch."""
    others = [*build_covers_cards(facts), *driver_serves_build(facts)]
    if any(check.verdict in ("blocker", "warning") for check in others):
        return torch_fix(facts)
    return Fix(
        _("Look at what the driver says of the card; a card in this state needs another machine."), "nvidia-smi -q"
    )


def _unless_cpu(facts: Facts) -> Any:
    """What a card that cannot be used means: a warning where the recipe asks for the processor, else a blocker."""
    return "warning" if facts.asked is not None and facts.asked.recipe.run.device == "cpu" else "blocker"


def _dotted(card: Gpu) -> str:
    return f"{card.capability[0]}.{card.capability[1]}" if card.capability else "n/a"


CHECKS = (torch_imports, tensors_become_arrays, build_covers_cards, driver_serves_build, tiny_kernel)

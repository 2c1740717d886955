"""Disks: every folder that a run writes, the disk on which it lies, and whether there is room."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from trainwright.doctor.records import Asked, Check, Facts, Fix, Place, Verdict
from trainwright.machine.places import cache_root, default_runs_root
from trainwright.messages.text import _
from trainwright.records import Machine
from trainwright.units import format_bytes, format_count

GIB = 2**30
LOW = 5 * GIB  # of a small system disk; below this the first download fills it
LEAST = GIB  # of any disk: logs, reports and temporary files
FEW_FILES, NO_FILES = 10_000, 500  # that a disk can still hold; an environment or a large cache makes thousands
CHECKPOINT_BYTES = 12  # per parameter: fp32 weights and AdamW's two moments
MODEL_BYTES = 4
PREPARED = 2  # bytes of prepared data per byte of text, at most: token ids of 4 bytes, one for two or more letters
NETWORK_DISK, NETWORK_FILES = "autodl-fs", 200_000  # AutoDL's file storage, and the files that it may hold
CACHES = ("hf", "modelscope", "tmp", "pip", "uv", "triton")


def see_places(machine: Machine, asked: Asked | None, environment: Mapping[str, str]) -> list[Place]:
    """Every folder that a run may write, with its disk and what the recipe would put there."""
    need = needs(asked)
    runs = asked.runs_root if asked else default_runs_root(machine)
    home = Path(environment.get("HOME") or Path.home())
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    hf = "HF_HUB_CACHE" if environment.get("HF_HUB_CACHE") else "HF_HOME"  # the first one wins in the hub's library
    folders = [
        ("runs", "", runs),
        ("prepared", "", cache_root(machine)),
        ("hf", hf, environment.get(hf) or cache / "huggingface"),
        ("modelscope", "MODELSCOPE_CACHE", environment.get("MODELSCOPE_CACHE") or cache / "modelscope"),
        ("tmp", "TMPDIR", environment.get("TMPDIR") or tempfile.gettempdir()),
        ("pip", "PIP_CACHE_DIR", environment.get("PIP_CACHE_DIR") or cache / "pip"),
        ("uv", "UV_CACHE_DIR", environment.get("UV_CACHE_DIR") or cache / "uv"),
        ("triton", "TRITON_CACHE_DIR", environment.get("TRITON_CACHE_DIR") or home / ".triton"),
    ]
    seen = [
        place_at(purpose, variable, Path(folder).expanduser(), need.get(purpose))
        for purpose, variable, folder in folders
    ]
    return [place for place in seen if place is not None]


def needs(asked: Asked | None) -> dict[str, int]:
    """Bytes that the recipe's run writes, by purpose; what is not known is left out.

    Checkpoints are those that stay, the best one, and the one that is being written; the best model comes on top.
    """
    if asked is None:
        return {}
    found = {}
    if asked.parameters is not None:
        checkpoints = asked.recipe.run.keep_checkpoints + 2
        found["runs"] = asked.parameters * (CHECKPOINT_BYTES * checkpoints + MODEL_BYTES)
        if asked.from_hub:
            found["modelscope" if asked.recipe.hub == "modelscope" else "hf"] = asked.parameters * MODEL_BYTES
    if asked.data_bytes is not None:
        found["prepared"] = asked.data_bytes * PREPARED
    return found


def place_at(purpose: str, variable: str, path: Path, need: int | None = None) -> Place | None:
    """A folder, which need not exist yet, and its disk; None if the disk cannot be told."""
    nearest = next((one for one in (path.absolute(), *path.absolute().parents) if os.path.exists(one)), None)
    if nearest is None:
        return None
    real = nearest.resolve()
    try:
        space, device = os.statvfs(real), os.stat(real).st_dev
    except OSError:
        return None
    disk = next(one for one in (real, *real.parents) if os.path.ismount(one))
    return Place(
        purpose=purpose,
        variable=variable,
        path=str(path),
        disk=str(disk),
        device=device,
        total=space.f_blocks * space.f_frsize,
        free=space.f_bavail * space.f_frsize,
        files=(space.f_files, space.f_favail) if space.f_files else None,
        writable=os.access(real, os.W_OK | os.X_OK) and not space.f_flag & os.ST_RDONLY and real.is_dir(),
        need=need,
    )


def purpose_name(purpose: str) -> str:
    """A purpose in the language in use."""
    names = {
        "runs": _("runs"),
        "prepared": _("prepared data"),
        "hf": _("models of Hugging Face"),
        "modelscope": _("models of ModelScope"),
        "tmp": _("temporary files"),
        "pip": _("pip's cache"),
        "uv": _("uv's cache"),
        "triton": _("compiled kernels"),
    }
    return names[purpose]


# -- checks --------------------------------------------------------------------------------------------------------


def disks_have_room(facts: Facts) -> Iterator[Check]:
    """What the run writes fits, disk by disk: places on one disk share what is free."""
    for places in _by_disk(facts.places):
        disk, free = places[0].disk, places[0].free
        need = sum(place.need or 0 for place in places)
        evidence = {
            "disk": disk, "free": free, "total": places[0].total, "need": need or None,
            "places": {place.purpose: place.path for place in places},
        }  # fmt: skip
        said = {
            "disk": disk, "free": format_bytes(free), "total": format_bytes(places[0].total),
            "need": format_bytes(need), "places": ", ".join(purpose_name(place.purpose) for place in places),
        }  # fmt: skip
        if need > free:
            message = _("The disk {disk} has {free} free and the run needs {need} there ({places}).").format(**said)
            yield Check("disks.room", "blocker", message, evidence, _room_fix(facts, places))
        elif free - need < LEAST or (_is_system_disk(facts, places) and free - need < LOW):
            message = _("The disk {disk} has only {free} of {total} free ({places}).").format(**said)
            yield Check("disks.room", "warning", message, evidence, _room_fix(facts, places))
        else:
            message = _("The disk {disk} has {free} of {total} free ({places}).").format(**said)
            yield Check("disks.room", "ok", message, evidence)


def _by_disk(places: list[Place]) -> list[list[Place]]:
    """Places grouped by disk; the disk of the runs comes first."""
    devices = dict.fromkeys(place.device for place in places)
    return [[place for place in places if place.device == device] for device in devices]


def _is_system_disk(facts: Facts, places: list[Place]) -> bool:
    """Whether these lie on the small system disk of a platform that has another one for data."""
    return facts.machine.data_disk is not None and places[0].disk == "/"


def _room_fix(facts: Facts, places: list[Place]) -> Fix:
    """Another disk of this machine if one has more room, else room on this one."""
    roomiest = max(facts.places, key=lambda place: place.free)
    caches = [place for place in places if place.purpose in CACHES]
    if _is_system_disk(facts, places) and caches:
        return _move(facts.machine.data_disk or "", caches)
    if roomiest.device != places[0].device and any(place.purpose == "runs" for place in places):
        text = _("Put the runs on {disk}, which has {free} free: give --runs to `trainwright train`.")
        return Fix(text.format(disk=roomiest.disk, free=format_bytes(roomiest.free)))
    return Fix(_("Make room: remove old runs and caches that you no longer need, or keep fewer checkpoints."),
               by_hand=f"du -xh --max-depth=2 {places[0].disk} | sort -h | tail")  # fmt: skip


def caches_lie_on_data_disk(facts: Facts) -> Iterator[Check]:
    """On a platform with a small system disk, caches lie on the disk for data."""
    if facts.machine.data_disk is None:
        return
    caches = [place for place in facts.places if place.purpose in CACHES and place.disk == "/"]
    if not caches:
        yield Check("disks.caches", "ok", _("Caches and temporary files lie off the system disk."))
        return
    message = _("These lie on the small system disk: {places}. One model and a few packages fill it.")
    said = message.format(places=", ".join(purpose_name(place.purpose) for place in caches))
    evidence = {place.variable: place.path for place in caches}
    yield Check("disks.caches", "warning", said, evidence, _move(facts.machine.data_disk, caches))


def _move(data_disk: str, caches: list[Place]) -> Fix:
    """Variables that put caches on the disk for data, and their folders."""
    folders = {place.variable: str(Path(data_disk) / "cache" / place.purpose) for place in caches}
    text = _("Let them go to {disk} from now on; what is there already stays where it is.")
    return Fix(text.format(disk=data_disk), variables=folders, folders=tuple(folders.values()))


def disks_can_hold_files(facts: Facts) -> Iterator[Check]:
    """A disk may be full of files while bytes are free."""
    for places in _by_disk(facts.places):
        if places[0].files is None:
            message = _("The disk {disk} does not count its files.").format(disk=places[0].disk)
            yield Check("disks.files", "not available", message)
            continue
        total, free = places[0].files
        if free < FEW_FILES:
            message = _("The disk {disk} can hold only {free} more files (of {total}), however many bytes are free.")
            said = message.format(disk=places[0].disk, free=format_count(free), total=format_count(total))
            fix = Fix(_("Remove folders of many small files, such as old environments and unpacked data."))
            verdict: Verdict = "blocker" if free < NO_FILES else "warning"
            yield Check("disks.files", verdict, said, {"free": free, "total": total}, fix)


def places_are_writable(facts: Facts) -> Iterator[Check]:
    """Each folder can be written."""
    closed = [place for place in facts.places if not place.writable]
    for place in closed:
        message = _("{path} ({purpose}) cannot be written.").format(
            path=place.path, purpose=purpose_name(place.purpose)
        )
        needed = place.purpose in ("runs", "prepared", "tmp")
        text = _("Set {variable} to another folder.").format(variable=place.variable) if place.variable else ""
        fix = Fix(text or _("Choose another folder with --runs, or change its permissions."))
        yield Check("disks.writable", "blocker" if needed else "warning", message, {"path": place.path}, fix)
    if facts.places and not closed:
        yield Check("disks.writable", "ok", _("Every folder that a run uses can be written."))


def runs_are_kept(facts: Facts) -> Iterator[Check]:
    """On AutoDL: what becomes of the disk on which the runs lie."""
    runs = next((place for place in facts.places if place.purpose == "runs"), None)
    if facts.machine.platform != "autodl" or runs is None:
        return
    if NETWORK_DISK in Path(runs.path).parts:
        message = _("The runs would lie on the network disk: it is slow, and holds {files} files at most.")
        fix = Fix(_("Train on the data disk, and copy what you keep to the network disk."))
        yield Check(
            "disks.kept", "warning", message.format(files=format_count(NETWORK_FILES)), {"path": runs.path}, fix
        )
    elif facts.machine.data_disk and Path(runs.path).is_relative_to(facts.machine.data_disk):
        message = _("The data disk is fast, but is not part of a saved image and does not move with the instance.")
        fix = Fix(_("Copy what you keep to /root/autodl-fs or off the machine before you release or move it."))
        yield Check("disks.kept", "note", message, {"path": runs.path}, fix)
    elif facts.machine.data_disk:
        message = _("The runs would lie on the system disk, which is small.")
        fix = Fix(_("Leave out --runs: the default is the data disk."))
        yield Check("disks.kept", "warning", message, {"path": runs.path}, fix)


CHECKS = (disks_have_room, caches_lie_on_data_disk, disks_can_hold_files, places_are_writable, runs_are_kept)

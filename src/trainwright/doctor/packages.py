"""Versions: what is installed against what Trainwright and the packages themselves require, by their metadata."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from trainwright.doctor.builds import torch_fix
from trainwright.doctor.records import Check, Facts, Fix, Packages
from trainwright.messages.text import _

OURS = "trainwright"
# Not needed by Trainwright, yet seen beside it, and each is built for one version of torch
BESIDE_TORCH = ("torchtext", "torchvision", "torchaudio")


@dataclass(frozen=True)
class Clash:
    """Two versions that do not work together and whose metadata does not say so.

    Attributes:
        one: Package and the versions of it that clash.
        other: The package and versions that it clashes with.
    """

    one: Requirement
    other: Requirement


# NumPy 2 changed its binary interface, which torch follows from 2.3 on (release notes of torch 2.3); transformers 5
# takes a torch before 2.4 for absent; torchtext ended with 0.18, whose library loads beside torch 2.3 at most.
CLASHES = (
    Clash(Requirement("numpy>=2"), Requirement("torch<2.3")),
    Clash(Requirement("transformers>=5"), Requirement("torch<2.4")),
    Clash(Requirement("torchtext"), Requirement("torch>=2.4")),
)


def see_packages() -> Packages:
    """What is installed of what Trainwright needs, and what each of these requires in turn."""
    ours = [requirement for requirement in _requires(OURS) if _applies(requirement)]
    names = dict.fromkeys([OURS, *(canonicalize_name(Requirement(one).name) for one in ours), *BESIDE_TORCH])
    requires = {name: [one for one in _requires(name) if _applies(one)] for name in names}
    inner = {canonicalize_name(Requirement(one).name) for wanted in requires.values() for one in wanted}
    names_of_extras = _metadata(OURS).get_all("Provides-Extra") or [] if _version(OURS) else []
    extras = {name: [one for one in _requires(OURS) if _applies(one, name)] for name in names_of_extras}
    optional = {canonicalize_name(Requirement(one).name) for wanted in extras.values() for one in wanted}
    return Packages(
        versions={name: version for name in {*names, *inner, *optional} if (version := _version(name)) is not None},
        requires=requires,
        extras={
            extra: [one for one in _requires(OURS) if _applies(one, extra) and one not in ours] for extra in extras
        },
        python=(_metadata(OURS)["Requires-Python"] or "") if _version(OURS) else "",
    )


def _metadata(name: str) -> importlib.metadata.PackageMetadata:
    return importlib.metadata.metadata(name)


def _version(name: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


def _requires(name: str) -> list[str]:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.requires(name) or []
    return []


def _applies(requirement: str, extra: str = "") -> bool:
    """Whether a requirement counts on this Python and system, with an extra or without."""
    try:
        marker = Requirement(requirement).marker
    except InvalidRequirement:  # of an old package, written as was allowed then
        return False
    return marker is None or marker.evaluate({"extra": extra})


# -- checks --------------------------------------------------------------------------------------------------------


def python_fits(facts: Facts) -> Iterator[Check]:
    """Python itself is one of those that Trainwright supports."""
    python, wanted = facts.machine.python, facts.packages.python
    if not wanted:
        yield Check(
            "versions.python", "not available", _("The metadata of Trainwright is not here: versions are not compared.")
        )
    elif SpecifierSet(wanted).contains(python, prereleases=True):
        yield Check("versions.python", "ok", _("Python {version} fits.").format(version=python))
    else:
        message = _("Python {version} is not supported; Trainwright needs {wanted}.")
        fix = Fix(_("Make an environment with another Python."), by_hand="make quickstart PYTHON=python3.12")
        yield Check("versions.python", "blocker", message.format(version=python, wanted=wanted), fix=fix)


def requirements_fit(facts: Facts) -> Iterator[Check]:
    """Each package that Trainwright requires is installed, in a version that it names."""
    wanted = [Requirement(one) for one in facts.packages.requires.get(OURS, [])]
    wrong = [one for one in wanted if not _fits(facts.packages, one)]
    for one in wrong:
        yield _unmet(facts, one)
    if wanted and not wrong:
        message = _("All {count} packages that Trainwright needs are here, in versions that fit.")
        versions = {one.name: facts.packages.versions[canonicalize_name(one.name)] for one in wanted}
        yield Check("versions.requirements", "ok", message.format(count=len(wanted)), versions)


def _unmet(facts: Facts, wanted: Requirement) -> Check:
    name, found = canonicalize_name(wanted.name), facts.packages.versions.get(canonicalize_name(wanted.name))
    spelled = f"{wanted.name}{wanted.specifier}"
    said = {"name": wanted.name, "found": found, "wanted": wanted.specifier or "*"}
    if found is None:
        message = _("{name} is missing; Trainwright needs {wanted}.").format(**said)
    else:
        message = _("{name} {found} does not fit; Trainwright needs {wanted}.").format(**said)
    fix = torch_fix(facts) if name == "torch" else Fix(_("Install a version that fits."), install=(spelled,))
    return Check(f"versions.{name}", "blocker", message, {"found": found, "wanted": spelled}, fix)


def _fits(packages: Packages, wanted: Requirement) -> bool:
    found = packages.versions.get(canonicalize_name(wanted.name))
    return found is not None and wanted.specifier.contains(found, prereleases=True)


def known_clashes(facts: Facts) -> Iterator[Check]:
    """Pairs that are known not to work together, though no metadata says so."""
    for clash in CLASHES:
        one, other = (canonicalize_name(side.name) for side in (clash.one, clash.other))
        if not (_fits(facts.packages, clash.one) and _fits(facts.packages, clash.other)):
            continue
        versions: dict[str, Any] = {name: facts.packages.versions[name] for name in (one, other)}
        message = _("{one} and {other} do not work together.").format(
            one=f"{one} {versions[one]}", other=f"{other} {versions[other]}"
        )
        if one in BESIDE_TORCH:
            yield Check(f"versions.{one}-{other}", "warning", message, versions, _remove(one))
        else:
            yield Check(f"versions.{one}-{other}", "blocker", message, versions, torch_fix(facts))


def _remove(name: str) -> Fix:
    text = _("Trainwright does not use {name}; remove it, or keep it in an environment of its own.")
    return Fix(text.format(name=name), by_hand=f"python -m pip uninstall -y {name}")


def declared_clashes(facts: Facts) -> Iterator[Check]:
    """Pairs of which one says in its own metadata that the other does not fit.

    A package that has to be replaced anyway is left out: with its new version everything is different.
    """
    ours = [Requirement(one) for one in facts.packages.requires.get(OURS, [])]
    replaced = {canonicalize_name(one.name) for one in ours if not _fits(facts.packages, one)}
    for name, requires in facts.packages.requires.items():
        if name == OURS or name in replaced or name not in facts.packages.versions:
            continue
        for wanted in map(Requirement, requires):
            if canonicalize_name(wanted.name) not in replaced and not _fits(facts.packages, wanted):
                yield _declared(facts, name, wanted)


def _declared(facts: Facts, name: str, wanted: Requirement) -> Check:
    other = canonicalize_name(wanted.name)
    found = facts.packages.versions.get(other)
    spelled = f"{wanted.name}{wanted.specifier}"
    message = _("{name} {version} needs {wanted}, and {found} is here.").format(
        name=name,
        version=facts.packages.versions[name],
        wanted=spelled,
        found=f"{wanted.name} {found}" if found else _("none"),
    )
    evidence = {name: facts.packages.versions[name], other: found}
    if name in BESIDE_TORCH:
        return Check(f"versions.{name}-{other}", "warning", message, evidence, _remove(name))
    fix = torch_fix(facts) if other == "torch" else Fix(_("Install a version that fits both."), install=(spelled,))
    return Check(f"versions.{name}-{other}", "blocker", message, evidence, fix)


CHECKS = (python_fits, requirements_fit, known_clashes, declared_clashes)

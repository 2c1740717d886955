"""Where runs and caches go: the platform's data disk where there is one, since system disks are small."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from trainwright.records import Machine


def default_runs_root(machine: Machine) -> Path:
    """Folder of the runs: on the data disk on AutoDL, else ``runs`` in the folder of the command."""
    return Path(machine.data_disk) / "trainwright" / "runs" if machine.data_disk else Path("runs")


def cache_root(machine: Machine) -> Path:
    """Folder of prepared data: on the data disk, else the user's cache folder."""
    if machine.data_disk:
        return Path(machine.data_disk) / "trainwright" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainwright"


def free_bytes(path: Path) -> int | None:
    """Free bytes on the disk of a path, which need not exist yet; None if it cannot be told."""
    for place in [path, *path.absolute().parents]:
        try:
            return shutil.disk_usage(place).free
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return None

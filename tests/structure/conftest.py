import ast
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


MADE_BY_TOOLS = {"build", "dist", "runs", "quickstart", "__pycache__"}


@pytest.fixture(scope="session")
def tree() -> list[Path]:
    """Every file of the repository that git has or would take, whatever is committed yet."""
    if not (REPO / ".git").exists():  # an unpacked archive
        files = [path for path in REPO.rglob("*") if path.is_file()]
        return sorted(path for path in files if not is_made_by_tools(path.relative_to(REPO)))
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=REPO, capture_output=True, check=True).stdout.decode().split("\0")
    return sorted(REPO / name for name in names if name and (REPO / name).is_file())


def is_made_by_tools(path: Path) -> bool:
    """Whether a path below the root is in a hidden folder or in one that tools write."""
    return any(part in MADE_BY_TOOLS or part.startswith(".") for part in path.parts[:-1])


@pytest.fixture(scope="session")
def sources() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name, parsed."""
    package = REPO / "src"
    files = sorted((package / "trainwright").rglob("*.py"))
    return {dotted_name(file.relative_to(package)): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def dotted_name(file: Path) -> str:
    """``trainwright/runs/folder.py`` is ``trainwright.runs.folder``; a package's ``__init__`` is the package."""
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

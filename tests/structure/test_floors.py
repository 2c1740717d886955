"""The house: who may import whom. Everything is read from the source; nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = "trainwright"
ROOMS_BY_FLOOR = [
    ["errors", "units", "records", "messages"],
    ["recipe", "machine", "runs"],
    ["data", "model", "plan", "doctor", "diagnose", "storage", "watch"],
    ["train", "launch", "serve", "snapshot", "rent"],
    ["flow", "child", "quickstart", "prove", "compare", "study"],
    ["board", "terminal", "report", "notify"],
    ["cli"],  # the command line opens the other faces
]
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS_BY_FLOOR) for room in rooms}
# Parts of a model written as classes of torch. They count as heavy libraries themselves, so whoever uses them on a
# judging floor imports them inside functions, like torch.
KERNELS = {f"{ROOT}.model.dropout", f"{ROOT}.model.row_attention"}
HEAVY = {"torch", "transformers", "datasets"}
NEVER_HEAVY = {0, 1, 5, 6}
HEAVY_IN_FUNCTIONS = {2, 4}
DOORS = {ROOT, f"{ROOT}.__main__"}


class Import(NamedTuple):
    """One imported module, the line, and whether it is imported at once, in a function, or for types only."""

    module: str
    line: int
    when: str


def imports_of(name: str, source: ast.Module, modules: set[str]) -> Iterator[Import]:
    """Every import of a module; ``from package import module`` counts as importing that module."""
    for node, when in walk(source, "at once"):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, when)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(name, node, modules)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield Import(inner if inner in modules else base, node.lineno, when)


def walk(node: ast.AST, when: str) -> Iterator[tuple[ast.AST, str]]:
    """Every node below, with when it runs."""
    for child in ast.iter_child_nodes(node):
        below = when
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            below = "in a function"
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            below = "for types"
        yield child, below
        yield from walk(child, below)


def absolute(name: str, node: ast.ImportFrom, modules: set[str]) -> str:
    """The module that ``from ... import`` names, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    is_package = any(other.startswith(name + ".") for other in modules)
    parts = name.split(".")
    kept = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*kept, *([node.module] if node.module else [])])


def room_of(module: str) -> str:
    """``trainwright.runs.folder`` is in the room runs; the root package is in none."""
    return module.split(".")[1] if "." in module else ""


@pytest.fixture(scope="module")
def imports(sources) -> dict[str, list[Import]]:
    modules = set(sources)
    return {name: list(imports_of(name, source, modules)) for name, source in sources.items()}


def test_every_room_stands_on_a_floor(sources):
    rooms = {room_of(name) for name in sources if name not in DOORS}
    assert rooms - set(FLOOR) == set()


def test_a_file_imports_its_own_room_and_lower_floors_only(imports):
    wrong = [
        f"{name}:{found.line} imports {found.module}"
        for name, all_found in imports.items()
        if name not in DOORS
        for found in all_found
        if found.module.startswith(ROOT + ".") and not may_import(room_of(name), room_of(found.module))
    ]
    assert wrong == []


def may_import(room: str, other: str) -> bool:
    return room == other or FLOOR[other] < FLOOR[room]


def test_nobody_imports_the_root_package(imports):
    """Its names are for users; the version comes from the package's metadata."""
    wrong = [
        f"{name}:{found.line}"
        for name, all_found in imports.items()
        if name not in DOORS
        for found in all_found
        if found.module == ROOT
    ]
    assert wrong == []


def test_light_floors_never_import_torch_transformers_or_datasets(imports):
    wrong = [text for text, floor, _when in heavy_imports(imports) if floor in NEVER_HEAVY]
    assert wrong == []


def test_judging_floors_import_them_inside_functions_only(imports):
    wrong = [text for text, floor, when in heavy_imports(imports) if floor in HEAVY_IN_FUNCTIONS and when == "at once"]
    assert wrong == []


def heavy_imports(imports: dict[str, list[Import]]) -> Iterator[tuple[str, int, str]]:
    """Each import of a heavy library: where, the floor (the doors stand on the lightest), and when it runs."""
    for name, all_found in imports.items():
        floor = 0 if name in DOORS else FLOOR[room_of(name)]
        for found in all_found:
            if name not in KERNELS and (found.module.split(".")[0] in HEAVY or found.module in KERNELS):
                yield f"{name}:{found.line} imports {found.module} {found.when}", floor, found.when


def test_modules_do_not_import_each_other_in_a_circle(imports):
    edges = {
        name: {found.module for found in all_found if found.when == "at once" and found.module in imports} - {name}
        for name, all_found in imports.items()
    }
    assert circles(edges) == []


def circles(edges: dict[str, set[str]]) -> list[str]:
    """Modules from which a road leads back to themselves: what is left when those without imports are taken away."""
    left = {name: set(targets) for name, targets in edges.items()}
    while free := [name for name, targets in left.items() if not targets & set(left)]:
        for name in free:
            del left[name]
    return sorted(left)


def test_sub_packages_have_empty_init_files(repo):
    package = repo / "src" / ROOT
    inits = [file for file in package.rglob("__init__.py") if file.parent != package]
    assert len(inits) > 10
    assert [str(file.relative_to(repo)) for file in inits if file.read_text(encoding="utf-8").strip()] == []


def test_every_folder_of_modules_is_a_package(repo):
    folders = {file.parent for file in (repo / "src" / ROOT).rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


# -- the tests above would see it --------------------------------------------------------------------------------------


def found_in(name: str, text: str, *others: str) -> list[tuple[str, str]]:
    return [(each.module, each.when) for each in imports_of(name, ast.parse(text), {name, *others})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch.nn as nn", ("torch.nn", "at once")),
        ("def f():\n    import torch", ("torch", "in a function")),
        ("class A:\n    import torch", ("torch", "at once")),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None", ("torch", "at once")),
        ("if TYPE_CHECKING:\n    from torch import Tensor", ("torch", "for types")),
        ("from trainwright import flow", ("trainwright.flow", "at once")),
        ("from trainwright import __version__", ("trainwright", "at once")),
        ("from . import journal", ("trainwright.runs.journal", "at once")),
        ("from ..data import store", ("trainwright.data.store", "at once")),
        ("from .journal import Journal", ("trainwright.runs.journal", "at once")),
    ],
)
def test_every_way_to_import_is_seen(text, expected):
    others = ("trainwright.flow", "trainwright.runs.journal", "trainwright.data.store", "trainwright.data")
    assert found_in("trainwright.runs.folder", text, *others) == [expected]


def test_circles_are_found_and_straight_roads_are_not():
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]


def test_the_floors_name_each_room_once():
    rooms = [room for floor in ROOMS_BY_FLOOR for room in floor]
    assert len(rooms) == len(set(rooms))
    assert Path(ROOT).name == ROOT

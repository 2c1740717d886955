"""Write the generated parts of docs/ from the code: ``python tools/write_docs.py``; a test keeps them current."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from typer.main import get_command

sys.path.insert(0, str(Path(__file__).parent))  # this script is also loaded by a test, from elsewhere

from benchmark_page import benchmark_page
from models_page import models_page
from plan_memory_page import plan_memory_figure, plan_memory_page
from recipe_page import recipe_page
from reliability_page import reliability_page

DOCS = Path(__file__).resolve().parent.parent / "docs"


def main() -> None:
    """Write every generated page."""
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
        print(f"wrote docs/{name}")


def pages() -> dict[str, str]:
    """Every generated page by its name in docs/."""
    return {
        "commands.md": commands_page(),
        "recipe.schema.json": recipe_schema(),
        "recipe.md": recipe_page(),
        "benchmarks.md": benchmark_page(),
        "models.md": models_page(),
        "reliability.md": reliability_page(),
        "plan-memory.md": plan_memory_page(),
        "plan-memory.svg": plan_memory_figure(),
    }


def recipe_schema() -> str:
    """The JSON Schema of a recipe, by which editors complete and check one."""
    from trainwright.recipe.schema import json_schema

    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def commands_page() -> str:
    """Every command with its arguments and options, as its own help gives them."""
    from trainwright.cli.app import app

    root = get_command(app)
    parts = [
        "# Commands",
        "This page is written by `make docs` from the command line's own help; change the help, not the page.",
        "Exit codes: 0 done; 1 a finding or a failed check; 2 the user's mistake; 3 nothing to do; "
        "4 stopped, resumable; 5 gave up; 70 our bug.",
        "## trainwright",
        *description(root, "trainwright"),
        *commands_below(root, "trainwright"),
    ]
    return "\n\n".join(parts) + "\n"


def commands_below(group: Any, path: str) -> list[str]:
    """The sections of a group's commands, in the order in which they are declared."""
    parts: list[str] = []
    for name, command in group.commands.items():
        parts += [f"## {path} {name}", *description(command, f"{path} {name}")]
        parts += commands_below(command, f"{path} {name}") if hasattr(command, "commands") else []
    return parts


def description(command: Any, path: str) -> list[str]:
    """What a command does, how it is called, and its parameters as a table."""
    context = command.context_class(command, info_name=path)
    usage = f"```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```"
    records = [record for parameter in command.params if (record := parameter.get_help_record(context))]
    rows = [f"| `{cell(name)}` | {cell(text)} |" for name, text in records]
    table = ["\n".join(["| | |", "|---|---|", *rows])] if rows else []
    return [command.help or "", usage, *table]


def cell(text: str) -> str:
    """Text as one cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    main()

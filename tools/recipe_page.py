"""docs/recipe.md: every key of a recipe as a table, from the schema; and the names that are understood beside them."""

from __future__ import annotations

from typing import Any

from trainwright.recipe.names import TRANSLATED
from trainwright.recipe.schema import SECTIONS, Recipe, json_schema

INTRODUCTION = """# Recipes

This page is written by `make docs` from the schema; change `src/trainwright/recipe/schema.py`, not the page.

A recipe is a YAML file that asks for a run. `learn:` decides the result; `run:` decides only time, memory and money;
`trainer:` takes any other field of transformers' TrainingArguments and refuses, by name, those of another section.

- Precedence: `--set KEY=VALUE` over the recipe over the default. The environment sets nothing.
- `auto` is settled by data and machine; the report shows each such value with its reason.
- Relative paths start at the recipe's folder.
- `docs/recipe.schema.json` lets an editor complete and check a recipe. For editors with the YAML language server:
  `# yaml-language-server: $schema=docs/recipe.schema.json` as the recipe's first line.
"""


def recipe_page() -> str:
    """The page."""
    parts = [INTRODUCTION, "## The recipe itself", table(Recipe, ""), *sections(), translated()]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def sections() -> list[str]:
    """A heading, a sentence and a table for each section."""
    parts = []
    for name, kind in SECTIONS.items():
        parts += [f"## {name}:", (kind.__doc__ or "").strip(), table(kind, f"{name}.")]
    return parts


def table(kind: Any, prefix: str) -> str:
    """Key, what it takes, default, and what it means."""
    definitions = json_schema()["$defs"]
    properties = definitions[kind.__name__]["properties"] if prefix else json_schema()["properties"]
    lines = ["| key | takes | default | |", "|---|---|---|---|"]
    for name, field in kind.model_fields.items():
        if name in SECTIONS:
            continue
        default = "needed" if field.is_required() else f"`{shown(field.default)}`"
        default = "the file's name" if name == "name" else default
        lines.append(f"| `{prefix}{name}` | {takes(properties[name])} | {default} | {field.description or ''} |")
    return "\n".join(lines)


def takes(schema: dict[str, Any]) -> str:
    """What a value may be, in words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(takes(one) for one in schema["anyOf"] if one.get("type") != "null"))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "%" in schema.get("pattern", ""):
        return "share (`6%`)"
    names = {"integer": "whole number", "number": "number", "string": "text", "array": "list", "object": "keys"}
    return names.get(schema.get("type", ""), "anything")


def shown(value: Any) -> str:
    """A default as one writes it in YAML."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def translated() -> str:
    """Old and foreign names, and what they are read as."""
    lines = ["| written | read as |", "|---|---|"]
    lines += [f"| `{name}` | `{target}` |" for name, (target, _convert) in sorted(TRANSLATED.items())]
    both = "| `per_device_train_batch_size` x `gradient_accumulation_steps` | `learn.batch_size` |"
    return "\n".join(["## Names that are understood", "", *lines, both])

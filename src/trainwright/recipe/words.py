"""What a key takes, in words, from the schema: for the error that a wrong value ends with."""

from __future__ import annotations

from typing import Any

from trainwright.messages.text import _
from trainwright.recipe.schema import SECTIONS, json_schema

_BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def what_fits(name: str) -> str:
    """Everything that a key by its dotted name takes: "a whole number (>= 0), a share such as 10%, auto"."""
    section, _dot, bare = name.rpartition(".")
    schema = json_schema()
    kind = schema["$defs"][SECTIONS[section].__name__] if section else schema
    return ", ".join(dict.fromkeys(_kinds(kind["properties"][bare])))


def _kinds(schema: dict[str, Any]) -> list[str]:
    """The kinds of value in words; an empty value, which leaves a key at its default, goes without saying."""
    if "anyOf" in schema:
        return [kind for one in schema["anyOf"] for kind in _kinds(one)]
    if "enum" in schema or "const" in schema:
        return [str(word) for word in schema.get("enum", [schema.get("const")])]
    if "%" in schema.get("pattern", ""):
        return [_("a share such as 10%")]
    kind = schema.get("type")
    if kind in ("integer", "number"):
        word = _("a whole number") if kind == "integer" else _("a number")
        return [f"{word}{_bounds(schema)}"]
    if kind == "array":
        return [_("a list of {kinds}").format(kinds=", ".join(_kinds(schema["items"])))]
    if kind == "object":
        return [_("keys, each with its value") + ": " + ", ".join(_kinds(schema["additionalProperties"]))]
    return [] if kind == "null" else [_("text")]


def _bounds(schema: dict[str, Any]) -> str:
    bounds = [f"{sign} {schema[word]}" for word, sign in _BOUNDS.items() if word in schema]
    return f" ({', '.join(bounds)})" if bounds else ""

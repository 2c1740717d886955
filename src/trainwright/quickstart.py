"""The quickstart: real text that is already on this machine, a packaged encoder, and a recipe like any other."""

from __future__ import annotations

from pathlib import Path

from trainwright.data.docstrings import write_docstrings
from trainwright.messages.text import _

MODEL = "packaged:all-minilm-l6-v2"


def write_quickstart(folder: Path, model: str | None, rows: int) -> Path:
    """Write the quickstart's data and recipe; what is there already is used again.

    Args:
        folder: Where both go.
        model: A model folder in place of the packaged encoder.
        rows: Rows of text in all.

    Returns:
        The recipe file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"docstrings-{rows}.csv"
    if not data.exists():
        write_docstrings(data, rows=rows)
    recipe = folder / "recipe.yaml"
    if not recipe.exists() or model is not None:
        recipe.write_text(_recipe(data.name, str(Path(model).resolve()) if model else MODEL), encoding="utf-8")
    return recipe


def _recipe(data: str, model: str) -> str:
    lines = [
        "# " + _("Which library does a docstring come from? The names of the libraries are masked."),
        "name: quickstart",
        "task: text-classification",
        f"model: {model}",
        "data:",
        f"  train: {data}",
        "  validation: 15%",
        "  text: text",
        "  label: label",
        "  max_length: 128",
        "learn:",
        "  num_train_epochs: 1",
        "  batch_size: 16",
        "  learning_rate: 2.0e-4",
        "  seed: 42",
        "",
    ]
    return "\n".join(lines)

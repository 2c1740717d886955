"""What predict and export show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.errors import UserError
from trainwright.messages.text import _
from trainwright.units import format_number, format_share

if TYPE_CHECKING:
    from rich.console import Console

    from trainwright.runs.folder import RunFolder


def predict_and_show(
    folder: RunFolder,
    file: Path | None,
    texts: list[str],
    pairs: list[str],
    output: Path | None,
    column: str | None,
    force: bool,
    console: Console,
) -> None:
    """Predict a file into a file, or texts onto the screen.

    Raises:
        UserError: Neither a file nor a text was given, or both.
    """
    if (file is None) == (not texts):
        raise UserError(
            _("Predict takes a file or texts."),
            _('Give one of them: trainwright predict {run} FILE, or --text "..."').format(run=folder.id),
        )
    if pairs and len(pairs) != len(texts):
        raise UserError(
            _("There are {texts} --text and {pairs} --text-pair.").format(texts=len(texts), pairs=len(pairs)),
            _("Give each --text its --text-pair."),
        )
    from trainwright.serve.predict import predict_file, predict_texts

    if file is not None:
        written = predict_file(folder, file, output, column, force=force)
        console.print(_("Wrote {file}: {rows} rows.").format(file=written.path, rows=written.rows))
        return
    items: list[str | tuple[str, str]] = list(zip(texts, pairs, strict=True)) if pairs else list(texts)
    for item, answer in zip(items, predict_texts(folder, items), strict=True):
        text = item if isinstance(item, str) else " | ".join(item)
        console.print(f"{shown_answer(answer)}  {text}", markup=False, highlight=False)


def shown_answer(answer: dict[str, Any]) -> str:
    """A prediction on one line: what is predicted, and the likeliest labels."""
    predicted = answer["predicted"]
    if isinstance(predicted, float):
        return format_number(predicted)
    likeliest = sorted(answer["probability"].items(), key=lambda item: -item[1])[:3]
    shown = ", ".join(f"{name} {format_share(probability)}" for name, probability in likeliest)
    name = predicted if isinstance(predicted, str) else ", ".join(predicted) or _("no label")
    return f"{name}  ({shown})"


def export_and_show(folder: RunFolder, kind: str, output: Path | None, console: Console) -> None:
    """Export the model as a Hugging Face folder or as ONNX.

    Raises:
        UserError: Another kind is asked for.
    """
    if kind not in ("hf", "onnx"):
        raise UserError(_("'{kind}' is not a kind of export.").format(kind=kind), _("Use --to hf or --to onnx."))
    from trainwright.serve.export import export_hf, export_onnx

    target = output or Path(f"{folder.id}-{kind}")
    if kind == "hf":
        export_hf(folder, target)
        console.print(_("Wrote {folder}.").format(folder=target))
        return
    check = export_onnx(folder, target)
    console.print(
        _("Wrote {folder}; its logits differ from torch's by at most {difference:.1e}.").format(
            folder=target, difference=check.largest_difference
        )
    )

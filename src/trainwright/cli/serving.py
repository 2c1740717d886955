"""What predict and export show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.errors import UserError
from trainwright.messages.text import _
from trainwright.units import format_share

if TYPE_CHECKING:
    from rich.console import Console

    from trainwright.runs.folder import RunFolder


def predict_and_show(
    folder: RunFolder,
    file: Path | None,
    texts: list[str],
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
    from trainwright.serve.predict import predict_file, predict_texts

    if file is not None:
        written = predict_file(folder, file, output, column, force=force)
        console.print(_("Wrote {file}: {rows} rows.").format(file=written.path, rows=written.rows))
        return
    for text, answer in zip(texts, predict_texts(folder, texts), strict=True):
        likeliest = sorted(answer["probability"].items(), key=lambda item: -item[1])[:3]
        shown = ", ".join(f"{name} {format_share(probability)}" for name, probability in likeliest)
        console.print(f"{answer['predicted']}  ({shown})  {text}", markup=False, highlight=False)


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

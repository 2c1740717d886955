"""Export a run's model: as a Hugging Face folder, or as ONNX that is compared with torch before it is handed over."""

from __future__ import annotations

import importlib.util
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainwright.errors import CheckFailed, MachineError, UserError
from trainwright.messages.text import _
from trainwright.runs.folder import RunFolder
from trainwright.serve.predict import Predictor, pair_column, predictor_of

CLOSE = 1e-4  # largest difference of logits in fp32 that counts as the same model
LONG = 512  # tokens; beyond the windows and buckets of all attention kinds, which begin to matter at 64 or 128
OPSET = 17  # runs in every onnxruntime since 1.12
USE = """# {title}

Exported by Trainwright from a run's best model; its logits differ from torch's by at most {difference:.1e}.

```python
import numpy, onnxruntime
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
session = onnxruntime.InferenceSession("model.onnx")
batch = tokenizer({texts}, padding=True, truncation=True, max_length={length}, return_tensors="np")
names = [one.name for one in session.get_inputs()]
logits = session.run(["logits"], {{name: batch[name].astype(numpy.int64) for name in names}})[0]
{reading}
```
"""
READING = {  # how the outputs of each kind of label are read
    "class": "labels = {labels}\nprint([labels[place] for place in logits.argmax(-1)])",
    "rank": "labels = {labels}  # from the lowest on; each output says whether a text is above one of them\n"
    "print([labels[place] for place in (logits > 0).sum(-1)])",
    "set": "labels = {labels}\nlikely = 1 / (1 + numpy.exp(-logits)) >= {threshold}\n"
    "print([[name for name, said in zip(labels, row) if said] for row in likely])",
    "score": "print(logits[:, 0])",
}


@dataclass(frozen=True)
class OnnxCheck:
    """How an exported model compares with torch: the largest absolute difference of any logit."""

    folder: Path
    largest_difference: float


def export_hf(run: RunFolder, target: Path) -> Path:
    """Copy the model as a standard Hugging Face folder.

    Raises:
        UserError: The target exists, or the run has no model yet.
    """
    if not (run.model / "config.json").is_file():
        raise UserError(_("The run {run} has no model yet.").format(run=run.id), _("It has one when it has finished."))
    with _put_in_place_when_whole(target) as staging:
        shutil.copytree(run.model, staging, dirs_exist_ok=True)
    return target


def export_onnx(run: RunFolder, target: Path) -> OnnxCheck:
    """Write ``model.onnx`` with tokenizer and a note on its use, after comparing it with torch.

    Raises:
        MachineError: onnx or onnxruntime is not installed.
        CheckFailed: The exported model computes something else.
        UserError: The target exists.
    """
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise MachineError(
            _("Exporting to ONNX needs {names}.").format(names=", ".join(missing)), "pip install 'trainwright[onnx]'"
        )
    with _put_in_place_when_whole(target) as staging:
        predictor = predictor_of(run)
        _write_onnx(predictor, staging / "model.onnx")
        difference = compare(predictor, staging / "model.onnx")
        if not difference <= CLOSE:  # also where it is not a number
            raise CheckFailed(
                _("The exported model computes something else: logits differ by {difference:.1e}.").format(
                    difference=difference
                ),
                _("Keep the Hugging Face folder for this model: --to hf"),
            )
        predictor.tokenizer.save_pretrained(staging)
        predictor.model.config.save_pretrained(staging)
        note = _note(predictor, difference, pair_column(run) is not None)
        (staging / "README.md").write_text(note, encoding="utf-8")
    return OnnxCheck(target, difference)


def _note(predictor: Predictor, difference: float, pairs: bool) -> str:
    """How the file is used, as code to paste."""
    title = "An ONNX model for scores of texts" if predictor.kind == "score" else "An ONNX text classifier"
    reading = READING[predictor.kind].format(labels=predictor.labels, threshold=predictor.threshold)
    texts = '["a text", "another"], ["its second text", "that of the other"]' if pairs else '["a text", "another"]'
    length = predictor.max_length
    return USE.format(title=title, difference=difference, length=length, texts=texts, reading=reading)


def compare(predictor: Predictor, file: Path) -> float:
    """The largest absolute difference between torch's logits and those of the file, on batches of several shapes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    differences = []
    for rows, length in ((1, 3), (3, 16), (2, min(LONG, predictor.max_length))):
        batch = _made_up_batch(predictor, rows, length)
        with torch.inference_mode():
            expected = predictor.model(**batch).logits.numpy()
        found = session.run(["logits"], {name: batch[name].numpy() for name in names})[0]
        differences.append(float(abs(expected - found).max()))
    return float(np.max(differences))  # not a number where any is


def _write_onnx(predictor: Predictor, file: Path) -> None:
    predictor.model.to("cpu")
    predictor.device = torch.device("cpu")
    predictor.model.config._attn_implementation = "eager"  # plain matrix products, which every ONNX runtime has
    batch = _made_up_batch(predictor, 2, 12)
    axes = {name: {0: "rows", 1: "tokens"} for name in batch}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns of shapes that are constants, which compare() checks
        torch.onnx.export(
            _Logits(predictor.model, list(batch)).eval(),  # or the exporter leaves the model in training mode
            tuple(batch.values()),
            str(file),
            input_names=list(batch),
            output_names=["logits"],
            dynamic_axes={**axes, "logits": {0: "rows"}},
            opset_version=OPSET,
            dynamo=False,  # the tracer that gives dynamic axes on every torch from 2.6 on
        )


class _Logits(torch.nn.Module):
    """The model as a function of plain tensors."""

    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.model(**dict(zip(self.names, tensors, strict=True))).logits


def _made_up_batch(predictor: Predictor, rows: int, length: int) -> dict[str, torch.Tensor]:
    """Random ids with a part of them masked, as the model takes them; the same at every call."""
    generator = torch.Generator().manual_seed(rows * 1000 + length)
    ids = torch.randint(5, predictor.model.config.vocab_size, (rows, length), generator=generator)
    mask = torch.ones_like(ids)
    if rows > 1:
        mask[1, length // 2 :] = 0
        ids[1, length // 2 :] = predictor.model.config.pad_token_id or 0
    batch = {"input_ids": ids, "attention_mask": mask}
    if "token_type_ids" in predictor.tokenizer.model_input_names:
        batch["token_type_ids"] = torch.zeros_like(ids)
    return batch


@contextmanager
def _put_in_place_when_whole(target: Path) -> Iterator[Path]:
    """A folder to write into that becomes the target at the end, and is gone where something fails."""
    if target.exists():
        raise UserError(_("{file} exists and is left as it is.").format(file=target), _("Choose another name with -o."))
    staging = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    shutil.rmtree(staging, ignore_errors=True)  # of an earlier process with this id
    staging.mkdir(parents=True)
    try:
        yield staging
        os.replace(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)

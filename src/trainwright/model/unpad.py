"""Run a batch of rows as one packed row: real tokens only through every token-wise layer.

Padding comes back only where a head needs one vector a row. Families whose attention cannot be told the boundaries
(DeBERTa) are refused, with the reason, and go on with padded batches of like length.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainwright.messages.text import _
from trainwright.model import attention

if TYPE_CHECKING:
    import torch

# model type -> the module below the backbone whose output is every token's last vector, before anything is pooled
LAST_LAYER_OUTPUT = {
    "bert": "encoder",
    "roberta": "encoder",
    "xlm-roberta": "encoder",
    "camembert": "encoder",
    "electra": "encoder",
    "albert": "encoder",
    "distilbert": "transformer",
    "modernbert": "final_norm",
}
# Positions of these start behind the padding id (RoBERTa: 2, 3, ...).
_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert")


class CannotUnpad(Exception):
    """This model cannot be run packed; the message says why."""


class Unpadded:
    """Runs a sequence classifier on packed rows.

    Args:
        model: A transformers model with a sequence-classification head.

    Raises:
        CannotUnpad: The family is not known to be exact, or something in the model needs padded batches.
    """

    def __init__(self, model: Any) -> None:
        problem = problem_of(model)
        if problem:
            raise CannotUnpad(problem)
        attention.register()
        self.config = model.config
        backbone = getattr(model, model.base_model_prefix)
        self.last_layer = backbone.get_submodule(LAST_LAYER_OUTPUT[self.config.model_type])
        self.first_position = self._first_position()
        self._starts: Any = None

    def batch(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Rows with ``input_ids`` and ``labels`` as one packed batch.

        Returns:
            input_ids and position_ids of shape (1, tokens), labels and row_starts of shape (rows,), and row_lengths.
        """
        import torch

        lengths = [len(row["input_ids"]) for row in rows]
        ids = torch.as_tensor([token for row in rows for token in row["input_ids"]])
        ends = torch.tensor(lengths).cumsum(0)
        starts = ends - torch.tensor(lengths)
        positions = torch.arange(len(ids)) - torch.repeat_interleave(starts, torch.tensor(lengths))
        packed = {
            "input_ids": ids.unsqueeze(0),
            "position_ids": (positions + self.first_position).unsqueeze(0),
            "row_starts": starts,
            "row_lengths": lengths,
        }
        if "token_type_ids" in rows[0]:
            types = [kind for row in rows for kind in row["token_type_ids"]]
            packed["token_type_ids"] = torch.as_tensor(types).unsqueeze(0)
        label = next((name for name in ("labels", "label", "label_ids") if name in rows[0]), None)
        if label:
            packed["labels"] = torch.as_tensor([row[label] for row in rows])
        return packed

    @contextlib.contextmanager
    def running(self, row_starts: torch.Tensor) -> Iterator[None]:
        """While a packed batch runs: our attention, and one vector a row behind the last layer.

        Outside, the model is as it was, so padded batches of anybody else are right too.
        """
        before = self.config._attn_implementation
        self.config._attn_implementation = attention.NAME
        hook = self.last_layer.register_forward_hook(lambda _module, _inputs, output: _first_tokens(output, row_starts))
        try:
            yield
        finally:
            hook.remove()
            self.config._attn_implementation = before

    def _first_position(self) -> int:
        return (self.config.pad_token_id or 0) + 1 if self.config.model_type in _OFFSET_POSITIONS else 0


def problem_of(model: Any) -> str | None:
    """Why a model cannot be run packed; None if it can."""
    config = getattr(model, "config", None)
    kind = getattr(config, "model_type", type(model).__name__)
    if kind not in LAST_LAYER_OUTPUT:
        return _("{kind} models are not known to be exact without padding").format(kind=kind)
    if not type(model).__module__.startswith("transformers.models."):
        return _("{name} is not a model of transformers itself").format(name=type(model).__name__)
    if not type(model).__name__.endswith("ForSequenceClassification"):
        return _("{name} has no sequence-classification head").format(name=type(model).__name__)
    if getattr(config, "classifier_pooling", "cls") != "cls":
        return _("its head takes the mean over the tokens, which needs them side by side")
    return None


def _first_tokens(output: Any, starts: torch.Tensor) -> Any:
    """Each row's first vector: (1, tokens, size) becomes (rows, 1, size), which heads read as their first token."""
    states = output if hasattr(output, "dim") else output[0]
    first = states[0].index_select(0, starts).unsqueeze(1)
    if output is states:
        return first
    return type(output)(last_hidden_state=first) if hasattr(output, "last_hidden_state") else (first, *output[1:])

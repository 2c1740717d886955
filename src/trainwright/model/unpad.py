"""Run a batch of rows as one packed row: real tokens only through every token-wise layer.

Heads are given only the vectors that they need: each row's first for a class of the row, the labelled ones for labels
of tokens (the vocabulary's matrix of a masked-language head is a fifth of BERT-base's work). Families whose attention
cannot be told the boundaries (DeBERTa) are refused, with the reason, and go on with padded batches of like length.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainwright.messages.text import _
from trainwright.model import attention
from trainwright.records import Choice

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
# Decoders: every layer works token by token but for attention, which is told the boundaries.
DECODERS = ("gpt2", "llama", "mistral", "qwen2", "qwen3")
_ONE_LABEL_A_ROW = "ForSequenceClassification"
_ONE_LABEL_A_TOKEN = ("ForTokenClassification", "ForMaskedLM")
_NEXT_TOKEN = ("ForCausalLM", "LMHeadModel")
IGNORED = -100  # label of a token that no loss is computed for, as torch and transformers have it


class CannotUnpad(Exception):
    """This model cannot be run packed; the message says why."""


class Unpadded:
    """Runs a model on packed rows.

    Args:
        model: A transformers model with a head for sequence or token classification, masked or causal language.

    Attributes:
        labels: ``row``, ``token`` or ``next token``: what a label belongs to.

    Raises:
        CannotUnpad: The family is not known to be exact, or something in the model needs padded batches.
    """

    def __init__(self, model: Any) -> None:
        problem = problem_of(model)
        if problem:
            raise CannotUnpad(problem)
        attention.register()
        self.config = model.config
        self.labels = labels_of(model)
        backbone = getattr(model, model.base_model_prefix)
        inner = LAST_LAYER_OUTPUT.get(self.config.model_type)
        self.last_layer = backbone.get_submodule(inner) if inner else None
        self.first_position = self._first_position()

    def batch(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Rows with ``input_ids`` and ``labels`` as one packed batch.

        Returns:
            input_ids and position_ids of shape (1, tokens), row_lengths, labels, and ``kept``: which tokens' last
            vectors the head is given. Labels have shape (rows,), one a row; (1, kept) for token heads, whose loss
            needs labelled tokens only; (1, tokens) for the next token, where a row's first is nobody's target.
        """
        import numpy as np
        import torch

        row_lengths = [len(row["input_ids"]) for row in rows]
        lengths = torch.tensor(row_lengths)
        ids = _joined([row["input_ids"] for row in rows])
        starts = lengths.cumsum(0) - lengths
        positions = torch.arange(len(ids)) - torch.repeat_interleave(starts, lengths)
        packed = {
            "input_ids": ids.unsqueeze(0),
            "position_ids": (positions + self.first_position).unsqueeze(0),
            "row_lengths": row_lengths,
            "kept": starts if self.labels == "row" else None,
        }
        if "token_type_ids" in rows[0]:
            packed["token_type_ids"] = _joined([row["token_type_ids"] for row in rows]).unsqueeze(0)
        name = next((name for name in ("labels", "label", "label_ids") if name in rows[0]), None)
        if name is None:
            return packed
        if self.labels == "row":
            return packed | {"labels": torch.as_tensor(np.asarray([row[name] for row in rows]))}
        labels = _joined([row[name] for row in rows])
        if self.labels == "token":
            kept = (labels != IGNORED).nonzero().flatten()
            return packed | {"labels": labels[kept].unsqueeze(0), "kept": kept}
        return packed | {"labels": labels.index_fill(0, starts, IGNORED).unsqueeze(0), "use_cache": False}

    @contextlib.contextmanager
    def running(self, kept: torch.Tensor | None) -> Iterator[None]:
        """While a packed batch runs: our attention, and only the kept tokens' vectors behind the last layer.

        Outside, the model is as it was, so padded batches of anybody else are right too.
        """
        before = self.config._attn_implementation
        self.config._attn_implementation = attention.NAME
        hook = None
        if self.last_layer is not None and kept is not None:
            one_a_row = self.labels == "row"
            hook = self.last_layer.register_forward_hook(lambda _module, _in, output: _keep(output, kept, one_a_row))
        try:
            yield
        finally:
            if hook is not None:
                hook.remove()
            self.config._attn_implementation = before

    def _first_position(self) -> int:
        return (self.config.pad_token_id or 0) + 1 if self.config.model_type in _OFFSET_POSITIONS else 0


def problem_of(model: Any) -> str | None:
    """Why a model cannot be run packed; None if it can."""
    config = getattr(model, "config", None)
    kind = getattr(config, "model_type", type(model).__name__)
    if kind in (*LAST_LAYER_OUTPUT, *DECODERS) and not type(model).__module__.startswith("transformers.models."):
        return _("{name} is not a model of transformers itself").format(name=type(model).__name__)
    labels = labels_of(model)
    if labels is None:
        return _("{name} has no head that is known to be exact without padding").format(name=type(model).__name__)
    if labels == "token" and getattr(config, "sparse_prediction", False):
        return _("it leaves out unlabelled tokens itself")
    return problem_of_kind(kind, labels, getattr(config, "classifier_pooling", "cls"))


def problem_of_kind(kind: str, labels: str, pooling: str = "cls") -> str | None:
    """The same from what a model's config.json says, for the plan.

    Args:
        kind: ``model_type``.
        labels: What a label belongs to; see :class:`Unpadded`.
        pooling: ``classifier_pooling``.
    """
    if kind not in LAST_LAYER_OUTPUT and kind not in DECODERS:
        return _("{kind} models are not known to be exact without padding").format(kind=kind)
    if labels == "row" and kind in DECODERS:
        return _("{kind} models read a text's class off its last token, which they find by its padding").format(
            kind=kind
        )
    if (labels == "next token") != (kind in DECODERS):
        return _("{kind} models are not known to be exact without padding for this task").format(kind=kind)
    if labels == "row" and pooling != "cls":
        return _("its head takes the mean over the tokens, which needs them side by side")
    return None


def choose_batches(kind: str, labels: str, pooling: str = "cls") -> Choice:
    """``packed`` where the model is exact without padding, else ``padded``, with the reason."""
    problem = problem_of_kind(kind, labels, pooling)
    if problem:
        return Choice("padded", "chosen", problem)
    return Choice("packed", "chosen", _("{kind} models are exact without padding, which is faster").format(kind=kind))


def labels_of(model: Any) -> str | None:
    """What a model's labels belong to: ``row``, ``token``, ``next token``; None if its head is another one."""
    name = type(model).__name__
    if name.endswith(_ONE_LABEL_A_ROW):
        return "row"
    if name.endswith(_ONE_LABEL_A_TOKEN):
        return "token"
    return "next token" if name.endswith(_NEXT_TOKEN) else None


def _joined(values: Sequence[Any]) -> torch.Tensor:
    """Ragged lists or arrays of whole numbers, one behind the other; shape (all,), int64."""
    import numpy as np
    import torch

    return torch.from_numpy(np.concatenate([np.asarray(value, dtype=np.int64) for value in values]))


def _keep(output: Any, kept: torch.Tensor, one_a_row: bool) -> Any:
    """The kept tokens' vectors: (1, tokens, size) becomes (1, kept, size), or (kept, 1, size) where heads read the
    first token of each row."""
    states = output if hasattr(output, "dim") else output[0]
    chosen = states.squeeze(0).index_select(0, kept).unsqueeze(1 if one_a_row else 0)
    if output is states:
        return chosen
    return type(output)(last_hidden_state=chosen) if hasattr(output, "last_hidden_state") else (chosen, *output[1:])

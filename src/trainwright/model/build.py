"""Build the model of a task from a folder: head, label names, dropout, master weights in fp32."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError  # the kind of error only; nothing is unpickled here
from typing import TYPE_CHECKING, Any

from trainwright.errors import ModelError
from trainwright.messages.text import _
from trainwright.model import remote_code

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class Head:
    """What a task wants of a model.

    Attributes:
        kind: As in transformers' ``AutoModelFor...``: SequenceClassification.
        outputs: Names of its outputs, by id; None keeps what the model has.
        problem_type: Which loss transformers takes for them; None where there is one only.
        saved: What the task needs to know again at prediction, kept in config.json under ``trainwright``.
    """

    kind: str
    outputs: list[str] | None = None
    problem_type: str | None = None
    saved: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_classes(cls, labels: list[str]) -> Head:
        """The head of a classifier that gives each text one of these labels."""
        return cls("SequenceClassification", labels, "single_label_classification")


def build_model(folder: Path, head: Head, dropout: float | None, seed: int) -> PreTrainedModel:
    """A model with a head for a task; the same weights for the same seed.

    Args:
        folder: Model folder.
        head: What the task wants; a head of another size is made anew.
        dropout: Replaces every dropout probability of the model; None keeps its own.
        seed: Set before the model is built, since a new head is drawn.

    Raises:
        ModelError: transformers cannot build such a model from the folder.
    """
    import transformers

    with _said_plainly(folder, head):
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=remote_code.allowed())
    if config.pad_token_id is None:
        config.pad_token_id = load_tokenizer(folder).pad_token_id
    if head.outputs is not None:
        config.num_labels = len(head.outputs)
        config.id2label = dict(enumerate(head.outputs))
        config.label2id = {name: number for number, name in enumerate(head.outputs)}
        config.problem_type = head.problem_type
    config.trainwright = head.saved
    if dropout is not None:
        set_dropout(config, dropout)
    transformers.set_seed(seed)
    with _said_plainly(folder, head):
        model: PreTrainedModel = getattr(transformers, f"AutoModelFor{head.kind}").from_pretrained(
            folder,
            config=config,
            dtype="float32",
            ignore_mismatched_sizes=True,
            trust_remote_code=remote_code.allowed(),
        )
    return model


@contextlib.contextmanager
def _said_plainly(folder: Path, head: Head) -> Iterator[None]:
    """What transformers cannot load is the user's mistake, not a bug."""
    try:
        yield
    except UnpicklingError as error:  # torch's safe loader: the file holds more than weights
        raise ModelError(
            _("The weights in {folder} are a pickle that holds more than weights, and are not read: {error}").format(
                folder=folder, error=str(error).splitlines()[0]
            ),
            _("Choose a model with model.safetensors."),
        ) from None
    except (ValueError, OSError) as error:
        raise ModelError(
            _("{folder} cannot be used as a model for {head}: {error}").format(
                folder=folder, head=head.kind, error=str(error).splitlines()[0]
            ),
            _("Choose a model that transformers has as AutoModelFor{head}.").format(head=head.kind),
        ) from None


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a model folder.

    A model without a token for padding (GPT-2, Llama) pads with its end token: padded places are masked, so only that
    there is one matters. It is saved with the trained model.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if tokenizer.pad_token is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def set_dropout(config: Any, probability: float) -> list[str]:
    """Set every dropout probability that a transformers config has.

    Returns:
        The names that were set, such as ``hidden_dropout_prob`` and ``attention_probs_dropout_prob``.
    """
    names = [
        name
        for name, value in config.to_dict().items()
        if "dropout" in name and not isinstance(value, bool) and (value is None or isinstance(value, (int, float)))
    ]
    for name in names:
        setattr(config, name, probability)
    return names

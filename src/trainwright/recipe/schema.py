"""The schema of a recipe: every key, its type, its default and what it means.

Names inside ``learn:`` are those of transformers' TrainingArguments wherever one exists. The JSON Schema and the table
in docs/recipe.md are made from this file.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from trainwright.messages.text import _
from trainwright.units import parse_money, parse_share

# -- what YAML makes of what people write -----------------------------------------------------------------------------


def _plain_number(value: Any) -> Any:
    """YAML 1.1 reads 5e-5 as text, for want of a point; a number was meant. Yes and no are none."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", value.strip()):
        return float(value)
    return value


def _word(value: Any) -> Any:
    """A column or a label may be called 0, which YAML reads as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _auto_or_off(value: Any) -> Any:
    """YAML 1.1 reads on, yes, off and no as truth values; a word was meant."""
    return {True: "auto", False: "off"}[value] if isinstance(value, bool) else value


def _words(value: Any) -> Any:
    """Labels as words; refuses what YAML read as a truth value, since no one can tell how it was written."""
    names = list(value) if isinstance(value, list | dict) else []
    if any(isinstance(name, bool) for name in names):
        raise ValueError(_("a label was read as true or false: put yes, no, on and off into quotes"))
    if isinstance(value, dict):
        return {_word(name): weight for name, weight in value.items()}
    return value


def _share(text: str) -> str:
    try:
        parse_share(text)
    except ValueError:
        raise ValueError(_("'{text}' is not a share such as 10%").format(text=text)) from None
    return text


def _share_above_zero(text: str) -> str:
    if parse_share(text) == 0:
        raise ValueError(_("'{text}' is not a share such as 10%").format(text=text))
    return text


def _rows(value: Any) -> Any:
    """YAML reads no as false; and a bare 0.1 could be a share or a count."""
    if value in ("none", "None") or value is False:
        return None
    if isinstance(value, int | float):
        raise ValueError(_("write a file, a share such as 10%, or none"))
    return value


def _file_or_share(text: str) -> str:
    if text.strip().endswith(("%", "％")) and not 0 < parse_share(_share(text)) < 1:
        raise ValueError(_("'{text}' leaves nothing on one side; hold out for example 10%").format(text=text))
    return text


def _codec(name: str) -> str:
    """A text encoding of Python's, or auto."""
    try:
        "".encode("utf-8" if name == "auto" else name)
    except (LookupError, UnicodeError):
        text = _("'{name}' is no encoding; write auto, utf-8, gb18030, big5, latin-1 ...")
        raise ValueError(text.format(name=name)) from None
    return name


def _price(value: Any) -> Any:
    try:
        parse_money(str(value))
    except ValueError:
        raise ValueError(_("a price is an amount with its currency, such as 3.5 CNY")) from None
    return value


# -- kinds of values --------------------------------------------------------------------------------------------------

_SHARE_PATTERN = r"^\s*\d+(\.\d+)?\s*[%％]\s*$"  # for editors; _share gives the better sentence
Share = Annotated[str, AfterValidator(_share), Field(json_schema_extra={"pattern": _SHARE_PATTERN})]
PositiveShare = Annotated[Share, AfterValidator(_share_above_zero)]
Place = Annotated[str, Field(min_length=1)]
Places = Annotated[list[Place], Field(min_length=1)]
Rows = Annotated[Annotated[Place, AfterValidator(_file_or_share)] | Places | None, BeforeValidator(_rows)]
Text = Annotated[str, Field(min_length=1), BeforeValidator(_word)]
Price = Annotated[str, BeforeValidator(_price)]
_number = BeforeValidator(_plain_number)  # stands last: what comes after it, pydantic leaves out of the JSON Schema
PositiveNumber = Annotated[float, Field(gt=0, allow_inf_nan=False), _number]
NonNegativeNumber = Annotated[float, Field(ge=0, allow_inf_nan=False), _number]
Probability = Annotated[float, Field(ge=0, lt=1), _number]
LayerDecay = Annotated[float, Field(gt=0, le=1), _number]
PositiveWhole = Annotated[int, Field(gt=0), _number]
NonNegativeWhole = Annotated[int, Field(ge=0), _number]
Rehearsal = Annotated[NonNegativeWhole | PositiveShare | Literal["auto", "off"], BeforeValidator(_auto_or_off)]
Length = Annotated[int, Field(ge=8), _number]
Seed = Annotated[int, Field(ge=0, lt=2**32), _number]
Task = Literal["text-classification", "multi-label", "regression", "ordinal"]  # explained in tasks.py
Metric = Literal[
    "auto",
    "macro_f1",
    "accuracy",
    "mcc",
    "micro_f1",
    "exact_match",
    "rmse",
    "pearson",
    "spearman",
    "mae",
    "kappa",
    "loss",
]
# Names of transformers, those that versions since 5.17 have in common
Scheduler = Literal[
    "linear",
    "cosine",
    "cosine_with_restarts",
    "polynomial",
    "constant",
    "constant_with_warmup",
    "inverse_sqrt",
    "reduce_lr_on_plateau",
    "cosine_with_min_lr",
    "warmup_stable_decay",
]
Logger = Literal[
    "tensorboard",
    "wandb",
    "mlflow",
    "swanlab",
    "trackio",
    "comet_ml",
    "clearml",
    "azure_ml",
    "codecarbon",
    "dagshub",
    "dvclive",
    "flyte",
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(_Section):
    """Which text, and which columns of it."""

    train: Place | Places = Field(
        description="File or folder with the training rows, a pattern such as part-*.csv, or a list; relative paths "
        "start at the recipe."
    )
    validation: Rows = Field(
        "10%", description="The same for the validation rows, or the share of the training rows to hold out, or none."
    )
    test: Rows = Field(None, description="The same for the test rows, or a share; scored once, at the end.")
    text: Text = Field("text", description="Column with the text.")
    text_pair: Text | None = Field(None, description="Column with a second text, for labels of pairs of texts.")
    label: Text | Annotated[list[Text], Field(min_length=2)] = Field(
        "label", description="Column with the label; for multi-label also a list of columns that hold 0 or 1."
    )
    label_separator: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="What stands between the labels of a row, for multi-label: 'action|drama' has '|'."
    )
    labels: Annotated[list[Text], Field(min_length=2), BeforeValidator(_words)] | None = Field(
        None,
        description="Label names in the order of their ids, for ordinal from the lowest on; by default sorted.",
    )
    max_length: Length | Literal["auto"] = Field(
        "auto", description="Longest row in tokens, special tokens included; longer rows are cut at the end."
    )
    empty_rows: Literal["drop", "refuse"] = Field(
        "drop", description="What to do with training rows that have no text; evaluation rows are never dropped."
    )

    encoding: Annotated[Text, AfterValidator(_codec)] = Field(
        "auto", description="Encoding of text files: auto, or a name such as utf-8, gb18030, big5, latin-1."
    )

    @field_validator("labels")
    @classmethod
    def _each_once(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and len(set(value)) < len(value):
            raise ValueError(_("a label is named twice"))
        return value


class Learn(_Section):
    """What decides the result."""

    num_train_epochs: PositiveNumber = Field(3.0, description="Passes over the training rows.")
    max_steps: PositiveWhole | None = Field(None, description="Steps in all, in place of epochs.")
    batch_size: PositiveWhole = Field(32, description="Examples of one optimizer step, over all devices.")
    learning_rate: PositiveNumber = Field(5e-5, description="Highest learning rate.")
    lr_scheduler_type: Scheduler = Field(
        "linear", description="How the rate falls after warm-up, as transformers names it."
    )
    warmup_steps: NonNegativeWhole | Share | Literal["auto"] = Field(
        "auto", description="Steps, or share of all steps, of rising rate."
    )
    layerwise_lr_decay: LayerDecay = Field(
        1.0, description="Factor of the rate from each layer to the one below it; 1.0 is one rate for all."
    )
    dropout: Probability | None = Field(None, description="Replaces every dropout of the model; by default its own.")
    weight_decay: NonNegativeNumber = Field(0.01, description="For weights, not for biases and norms.")
    max_grad_norm: NonNegativeNumber = Field(1.0, description="Clip gradients to this norm; 0: never.")
    class_weights: Annotated[Literal["balanced"] | dict[str, PositiveNumber] | None, BeforeValidator(_words)] = Field(
        None, description="Weight of each class in the loss: balanced, or label: weight for some."
    )
    focal_gamma: NonNegativeNumber = Field(
        0.0, description="Focal loss: rows that are right for sure count less; 2.0 is usual, 0 is plain cross-entropy."
    )
    label_smoothing_factor: Probability = Field(0.0, description="Share of the target spread over all classes.")
    early_stopping_patience: PositiveWhole | None = Field(
        None, description="Stop after this many evaluations without a better one."
    )
    eval_steps: PositiveWhole | PositiveShare | Literal["auto"] = Field(
        "auto", description="Steps, or share of them, between evaluations."
    )
    metric_for_best_model: Metric = Field(
        "auto", description="The best model is the one with the best value of this on validation; auto: by the task."
    )
    adam_beta1: Probability = Field(0.9, description="AdamW's decay of the mean of the gradient.")
    adam_beta2: Probability = Field(0.999, description="AdamW's decay of the mean of its square.")
    adam_epsilon: PositiveNumber = Field(1e-8, description="AdamW's guard against division by zero.")
    seed: Seed = Field(42, description="Of order, new weights and dropout.")


class Run(_Section):
    """What decides only time, memory and money."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field("auto", description="Number format of the arithmetic.")
    tokens_per_micro_batch: PositiveWhole | Literal["auto"] = Field(
        "auto", description="Tokens that one micro-batch may hold; a step is cut into as many as it needs."
    )
    batches: Literal["auto", "packed", "padded"] = Field(
        "auto", description="Rows one behind the other without padding, where the model is exact that way, or padded."
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Where to compute.")
    dataloader_num_workers: NonNegativeWhole | Literal["auto"] = Field("auto", description="Processes that read rows.")
    rehearse: Annotated[NonNegativeWhole | PositiveShare | Literal["auto", "off"], BeforeValidator(_auto_or_off)] = (
        Field("auto", description="The whole road on a sample before training: auto, off, steps, or share of the rows.")
    )
    report_to: list[Logger] = Field(["tensorboard"], description="Where else to log, as transformers names it.")
    price_per_hour: Price | None = Field(None, description="What the machine costs, with its currency: 3.5 CNY.")
    keep_checkpoints: PositiveWhole = Field(2, description="Checkpoints that stay; the newest and the best always do.")

    @field_validator("report_to", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        if value in ("none", None, False):
            return []
        return [value] if isinstance(value, str) else value


class Recipe(_Section):
    """What is asked for: which model learns what from which text, and how."""

    name: Text = Field(description="Name of the run; by default that of the training file.")
    task: Task = Field("text-classification", description="What is learned.")
    model: Place = Field(
        description="Model folder, packaged:NAME, or hub id such as google-bert/bert-base-chinese, with @REVISION if "
        "it is to be a certain one."
    )
    hub: Literal["auto", "hf", "hf-mirror", "modelscope", "local"] = Field(
        "auto", description="Where a hub id is fetched from; auto: the first that answers with weights; local: nowhere."
    )
    data: Data
    learn: Learn = Learn()
    run: Run = Run()
    trainer: dict[str, Any] = Field({}, description="Any other field of transformers' TrainingArguments.")
    format: Literal[1] = Field(1, description="Version of the recipe format.")

    @field_validator("trainer")
    @classmethod
    def _numbers(cls, value: dict[str, Any]) -> dict[str, Any]:
        return {name: item if isinstance(item, bool) else _plain_number(item) for name, item in value.items()}


SECTIONS: dict[str, type[_Section]] = {"data": Data, "learn": Learn, "run": Run}


def json_schema() -> dict[str, Any]:
    """The JSON Schema by which an editor completes and checks a recipe."""
    schema = Recipe.model_json_schema()
    schema["required"] = [name for name in schema["required"] if name != "name"]  # filled in from the training file
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Trainwright recipe"} | schema

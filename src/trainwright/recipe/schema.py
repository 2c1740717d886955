"""The schema of a recipe: every key, its type, its default and what it means.

Names inside ``learn:`` are those of transformers' TrainingArguments wherever one exists. The JSON Schema and the table
in docs/recipe.md are made from this file.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from trainwright.units import parse_money, parse_share


def _share(text: str) -> str:
    parse_share(text)
    return text


def _money(text: str) -> str:
    parse_money(text)
    return text


def _not_yes_or_no(value: Any) -> Any:
    """YAML 1.1 reads off, no, yes and on as truth values; a word was meant."""
    if isinstance(value, bool):
        return "off" if value is False else value
    return value


def _plain_number(value: Any) -> Any:
    """YAML 1.1 reads 5e-5 as text, for want of a point; a number was meant."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", value.strip()):
        return float(value)
    return value


_SHARE_PATTERN = r"^\s*\d+(\.\d+)?\s*[%％]\s*$"  # for editors; _share gives the better sentence
Share = Annotated[str, AfterValidator(_share), Field(json_schema_extra={"pattern": _SHARE_PATTERN})]
Number = Annotated[float, BeforeValidator(_plain_number)]
Steps = Annotated[int, Field(ge=0)] | Share
Probability = Annotated[Number, Field(ge=0, lt=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(_Section):
    """Which text, and which columns of it."""

    train: str = Field(description="File or folder with the training rows; relative paths start at the recipe.")
    validation: str | None = Field(
        "10%", description="File with the validation rows, or the share of the training rows to hold out, or none."
    )
    test: str | None = Field(None, description="File with the test rows, or a share; scored once, at the end.")
    text: str = Field("text", description="Column with the text.")
    label: str = Field("label", description="Column with the label.")
    labels: list[str] | None = Field(None, description="Label names in the order of their ids; by default sorted.")
    max_length: Annotated[int, Field(ge=8)] | Literal["auto"] = Field(
        "auto", description="Longest row in tokens, special tokens included; longer rows are cut at the end."
    )
    empty_rows: Literal["drop", "refuse"] = Field(
        "drop", description="What to do with training rows that have no text; evaluation rows are never dropped."
    )

    @field_validator("labels", mode="before")
    @classmethod
    def _quoted(cls, value: Any) -> Any:
        if isinstance(value, list) and any(isinstance(name, bool) for name in value):
            raise ValueError("a label was read as true or false: put yes, no, on and off into quotes")
        return [str(name) for name in value] if isinstance(value, list) else value

    @field_validator("validation", "test", mode="before")
    @classmethod
    def _none(cls, value: Any) -> Any:
        return None if value in ("none", "None", False) else value

    @field_validator("validation", "test")
    @classmethod
    def _file_or_share(cls, value: str | None) -> str | None:
        if value is not None and value.strip().endswith(("%", "％")):
            share = parse_share(value)
            if not 0 < share < 1:
                raise ValueError(f"'{value}' leaves nothing on one side; hold out for example 10%")
        return value


class Learn(_Section):
    """What decides the result."""

    num_train_epochs: Annotated[Number, Field(gt=0)] = Field(3.0, description="Passes over the training rows.")
    max_steps: Annotated[int, Field(gt=0)] | None = Field(None, description="Steps in all, in place of epochs.")
    batch_size: Annotated[int, Field(gt=0)] = Field(32, description="Examples of one optimizer step, over all devices.")
    learning_rate: Annotated[Number, Field(gt=0)] = Field(5e-5, description="Highest learning rate.")
    lr_scheduler_type: str = Field("linear", description="How the rate falls after warm-up, as transformers names it.")
    warmup_steps: Steps | Literal["auto"] = Field("auto", description="Steps, or share of all steps, of rising rate.")
    layerwise_lr_decay: Annotated[Number, Field(gt=0, le=1)] = Field(
        1.0, description="Factor of the rate from each layer to the one below it; 1.0 is one rate for all."
    )
    dropout: Probability | None = Field(None, description="Replaces every dropout of the model; by default its own.")
    weight_decay: Annotated[Number, Field(ge=0)] = Field(0.01, description="For weights, not for biases and norms.")
    max_grad_norm: Annotated[Number, Field(ge=0)] = Field(1.0, description="Clip gradients to this norm; 0: never.")
    class_weights: Literal["balanced"] | dict[str, Annotated[Number, Field(gt=0)]] | None = Field(
        None, description="Weight of each class in the loss: balanced, or label: weight for some."
    )
    label_smoothing_factor: Probability = Field(0.0, description="Share of the target spread over all classes.")
    early_stopping_patience: Annotated[int, Field(gt=0)] | None = Field(
        None, description="Stop after this many evaluations without a better one."
    )
    eval_steps: Steps | Literal["auto"] = Field("auto", description="Steps, or share of them, between evaluations.")
    metric_for_best_model: Literal["macro_f1", "accuracy", "mcc", "loss"] = Field(
        "macro_f1", description="The best model is the one with the best value of this on validation."
    )
    adam_beta1: Probability = Field(0.9, description="AdamW's decay of the mean of the gradient.")
    adam_beta2: Probability = Field(0.999, description="AdamW's decay of the mean of its square.")
    adam_epsilon: Annotated[Number, Field(gt=0)] = Field(1e-8, description="AdamW's guard against division by zero.")
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(42, description="Of order, new weights and dropout.")


class Run(_Section):
    """What decides only time, memory and money."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field("auto", description="Number format of the arithmetic.")
    tokens_per_micro_batch: Annotated[int, Field(gt=0)] | Literal["auto"] = Field(
        "auto", description="Tokens that one micro-batch may hold; a step is cut into as many as it needs."
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Where to compute.")
    dataloader_num_workers: Annotated[int, Field(ge=0)] | Literal["auto"] = Field(
        "auto", description="Processes that read rows."
    )
    rehearse: Annotated[
        Annotated[int, Field(ge=0)] | Share | Literal["auto", "off"], BeforeValidator(_not_yes_or_no)
    ] = Field("auto", description="The whole road on a sample before training: auto, off, steps, or share of the rows.")
    report_to: list[str] = Field(["tensorboard"], description="Where else to log, as transformers names it.")
    price_per_hour: Annotated[str, AfterValidator(_money)] | None = Field(
        None, description="What the machine costs, with its currency: 3.5 CNY."
    )
    keep_checkpoints: Annotated[int, Field(gt=0)] = Field(
        2, description="Checkpoints that stay; the newest and the best always do."
    )

    @field_validator("report_to", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        if value in ("none", None, False):
            return []
        return [value] if isinstance(value, str) else value


class Recipe(_Section):
    """What is asked for: which model learns what from which text, and how."""

    name: str = Field(description="Name of the run; by default that of the training file.")
    task: Literal["text-classification"] = Field("text-classification", description="What is learned.")
    model: str = Field(description="Model folder, packaged:NAME, or hub id such as google-bert/bert-base-chinese.")
    data: Data
    learn: Learn = Learn()
    run: Run = Run()
    trainer: dict[str, Any] = Field({}, description="Any other field of transformers' TrainingArguments.")
    format: Literal[1] = Field(1, description="Version of the recipe format.")


SECTIONS: dict[str, type[_Section]] = {"data": Data, "learn": Learn, "run": Run}


def json_schema() -> dict[str, Any]:
    """The JSON Schema by which an editor completes and checks a recipe."""
    schema = Recipe.model_json_schema()
    schema["required"] = [name for name in schema["required"] if name != "name"]  # filled in from the training file
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Trainwright recipe"} | schema

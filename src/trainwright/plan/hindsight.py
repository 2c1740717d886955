"""What was predicted beside what was measured, at the end of a run; and what the next plan learns from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainwright.messages.text import _
from trainwright.plan.cost import cost_of
from trainwright.plan.forecast import LEARNED
from trainwright.plan.speed import Speed
from trainwright.records import Plan
from trainwright.units import Money, format_bytes, format_seconds, parse_money

IN_TRAINING = ("training", "evaluation", "saving")  # phases that the measured seconds of a run hold
LEAST_STEPS = 10  # a shorter run says little about speed


@dataclass(frozen=True)
class Compared:
    """One quantity of a run; None is "not available".

    Attributes:
        name: memory (bytes), time (seconds) or cost (an amount in ``unit``).
        error: (predicted - measured) / measured.
    """

    name: str
    predicted: float | None
    measured: float | None
    error: float | None
    unit: str


def compare(plan: Plan, results: dict[str, Any], resumed: bool = False) -> list[Compared]:
    """Memory, time and cost as predicted by the plan and as measured; empty for a plan without a forecast.

    Args:
        results: ``results.json`` of the run. A run that stopped early is compared with as much of the prediction.
        resumed: Whether it was made in several parts, of which the seconds of the last alone are known.
    """
    taken = plan.forecast
    if taken is None:
        return []
    phases = [taken.seconds.get(name) for name in IN_TRAINING]
    share = results.get("steps", plan.steps) / plan.steps
    seconds = None if None in phases else share * math.fsum(value or 0.0 for value in phases)
    took = None if resumed else results.get("seconds")
    price = parse_money(taken.price) if taken.price else None
    unit = price.currency if price else ""
    return [
        _row("memory", taken.memory_total, measured_memory(results), "B"),
        _row("time", seconds, took, "s"),
        _row("cost", _in_money(price, seconds), _in_money(price, took), unit),
    ]


def _in_money(price: Money | None, seconds: float | None) -> float | None:
    cost = cost_of(price, seconds)
    return None if cost is None else float(cost.amount)


def in_words(compared: Sequence[Compared]) -> list[tuple[str, str, str, str]]:
    """Name, predicted, measured and error of each as text for people."""
    names = {"memory": _("peak memory"), "time": _("time"), "cost": _("cost")}
    return [
        (
            names[one.name],
            _amount(one, one.predicted),
            _amount(one, one.measured),
            "n/a" if one.error is None else f"{one.error:+.0%}",
        )
        for one in compared
    ]


def _amount(one: Compared, value: float | None) -> str:
    if value is None:
        return "n/a"
    if one.name == "cost":
        return f"{value:.2f} {one.unit}"
    return format_bytes(value) if one.name == "memory" else format_seconds(value)


def measured_memory(results: dict[str, Any]) -> int | None:
    """Bytes at the highest moment, of the card where there is one."""
    peak = results.get("peak_memory") or {}
    return peak.get("gpu") or peak.get("resident")


def learned(
    plan: Plan, model: str, results: dict[str, Any], logs: Sequence[dict], saves: Sequence[dict]
) -> Speed | None:
    """What a finished run teaches; None where it was too short, or its model's operations are not counted.

    Args:
        model: By what it is remembered; see :func:`trainwright.plan.forecast.model_name`.
        logs: Its journal's log events, without the rehearsal's.
        saves: Its save events.
    """
    taken = plan.forecast
    steps = sum(event["steps"] for event in logs)
    seconds = sum(event["step_seconds"] * event["steps"] for event in logs)
    if taken is None or not taken.flops or steps < LEAST_STEPS or seconds <= 0:
        return None
    written = [(event["bytes"], event["took"]) for event in saves if event.get("bytes") and event.get("took")]
    counted = taken.memory_total - taken.memory.get(LEARNED, 0) if taken.memory and taken.memory_total else None
    memory = measured_memory(results)
    return Speed(
        device=taken.device,
        cards=taken.cards,
        precision=taken.precision,
        model=model,
        flops_per_second=taken.flops * steps / plan.steps / seconds,
        memory_ratio=memory / counted if memory and counted else None,
        save_bytes_per_second=sum(size for size, _took in written) / sum(took for _size, took in written)
        if written
        else None,
    )


def _row(name: str, predicted: float | None, measured: float | None, unit: str) -> Compared:
    error = (predicted - measured) / measured if predicted is not None and measured else None
    return Compared(name, predicted, measured, error, unit)

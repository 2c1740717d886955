"""One small pure function a rule: facts of a run in, a finding or None out. Thresholds carry their reasons."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from trainwright.diagnose.facts import RunFacts
from trainwright.messages.text import _
from trainwright.recipe.tasks import greater_is_better
from trainwright.records import Finding
from trainwright.units import format_share

USUAL_RATES = (1e-6, 1e-3)  # fine-tuning with AdamW; BERT's own paper uses 2e-5 to 5e-5
MUCH_PADDING = 0.5  # beyond this, most of the work is on nothing
MUCH_ASIDE = 0.2  # share of the time for evaluating or saving
ALMOST_ALL = 0.995  # of the predictions in one class
SETTLED_SECONDS = 60.0  # shorter runs are not worth tuning for speed

Rule = Callable[[RunFacts], Finding | None]


def ended_with_error(facts: RunFacts) -> Finding | None:
    """The run failed or was refused: what was reported, and in which part of the road."""
    if facts.status.state not in ("failed", "refused"):
        return None
    error = facts.errors[-1] if facts.errors else {}
    rehearsing = "rehearse" in facts.phases and "train" not in facts.phases
    return Finding(
        "run.rehearsal-failed" if rehearsing else f"run.{facts.status.state}",
        "error",
        _("The rehearsal failed, before the long part began: {why}").format(why=facts.status.because)
        if rehearsing
        else facts.status.because or _("The run ended without a word."),
        {"step": facts.status.step, "error": error.get("type"), "exit_code": facts.status.exit_code},
        str(error.get("way_out") or ""),
    )


def loss_lost(facts: RunFacts) -> Finding | None:
    """The loss became NaN or infinite: the first step where the log says so."""
    lost = next((event["step"] for event in facts.logs if not _is_number(event["loss"])), None)
    if lost is None:
        return None
    rate = facts.values.get("learn.learning_rate")
    return Finding(
        "learning.loss-lost",
        "error",
        _("The loss is not a number from step {step} on.").format(step=lost),
        {"step": lost, "learning_rate": rate},
        _("Lower the learning rate."),
        {"learn.learning_rate": _round(float(rate) / 5)} if rate else {},
    )


def constant_predictions(facts: RunFacts) -> Finding | None:
    """One class takes nearly all predictions while the labels are spread."""
    confusion = (facts.validation or {}).get("confusion")
    if not confusion:
        return None
    total = sum(map(sum, confusion))
    predicted = [sum(row[column] for row in confusion) for column in range(len(confusion))]
    largest = max(range(len(predicted)), key=predicted.__getitem__)
    if total == 0 or predicted[largest] < ALMOST_ALL * total or sum(confusion[largest]) > 0.9 * total:
        return None
    label = facts.validation["per_class"][largest]["label"]  # type: ignore[index]
    rate = float(facts.values.get("learn.learning_rate", 5e-5))
    return Finding(
        "learning.constant-predictions",
        "warning",
        _("Nearly every row is predicted as {label}: the model learned nothing but that class.").format(label=label),
        {"label": label, "share": predicted[largest] / total, "learning_rate": rate},
        _("Lower the learning rate if the loss went up, raise it if it hardly moved; warm up longer."),
        {"learn.learning_rate": _round(rate / 3 if rate > 1e-4 else rate * 3)},
    )


def no_better_than_baseline(facts: RunFacts) -> Finding | None:
    """The score is within its sampling error of always predicting the same."""
    scores = facts.validation
    if not scores or facts.metric == "loss":
        return None
    name = facts.metric
    gain, error = scores[name] - scores["baseline"][name], scores["error"].get(name)
    gain = gain if greater_is_better(name) else -gain
    if error is None or gain > error:
        return None
    return Finding(
        "learning.no-better-than-baseline",
        "warning",
        _("The score is no better than always predicting {label}.").format(label=scores["baseline"]["label"]),
        {"metric": name, "score": scores[name], "baseline": scores["baseline"][name], "error": error},
        _("Train longer or with another learning rate, and check that the labels fit the texts."),
    )


def class_never_predicted(facts: RunFacts) -> Finding | None:
    """Classes that occur in validation and are never predicted."""
    scores = facts.validation
    if not scores or "confusion" not in scores or constant_predictions(facts):
        return None
    confusion = scores["confusion"]
    missing = [
        {"label": one["label"], "rows": one["rows"]}
        for place, one in enumerate(scores["per_class"])
        if one["rows"] and not sum(row[place] for row in confusion)
    ]
    if not missing:
        return None
    names = ", ".join(str(one["label"]) for one in missing[:5])
    return Finding(
        "learning.class-never-predicted",
        "warning",
        _("{n} classes are never predicted: {names}.").format(n=len(missing), names=names),
        {"classes": missing},
        _("Weigh the classes, bring more rows of them, or train longer."),
        {"learn.class_weights": "balanced"},
    )


def warmup_too_long(facts: RunFacts) -> Finding | None:
    """Warm-up takes the whole run, so the rate that was asked for is never reached."""
    if facts.plan is None or facts.plan.warmup_steps < facts.plan.steps:
        return None
    return Finding(
        "learning.warmup-too-long",
        "warning",
        _("Warm-up takes {warmup} of {steps} steps: the learning rate asked for is never reached.").format(
            warmup=facts.plan.warmup_steps, steps=facts.plan.steps
        ),
        {"warmup_steps": facts.plan.warmup_steps, "steps": facts.plan.steps},
        _("Warm up for a share of the steps."),
        {"learn.warmup_steps": "6%"},
    )


def unusual_rate(facts: RunFacts) -> Finding | None:
    """A learning rate outside the range in which fine-tuning with AdamW works."""
    rate = facts.values.get("learn.learning_rate")
    if rate is None or USUAL_RATES[0] <= float(rate) <= USUAL_RATES[1]:
        return None
    return Finding(
        "learning.unusual-rate",
        "warning",
        _("The learning rate {rate:g} is outside the usual range for fine-tuning, {low:g} to {high:g}.").format(
            rate=float(rate), low=USUAL_RATES[0], high=USUAL_RATES[1]
        ),
        {"learning_rate": rate},
        _("Start from 5e-5."),
        {"learn.learning_rate": 5e-5},
    )


def much_padding(facts: RunFacts) -> Finding | None:
    """Most tokens that the model saw were padding."""
    real, seen = _sum(facts.logs, "real_tokens"), _sum(facts.logs, "padded_tokens")
    if not seen or 1 - real / seen <= MUCH_PADDING:
        return None
    return Finding(
        "speed.much-padding",
        "warning",
        _("{share} of the tokens in the micro-batches were padding.").format(share=format_share(1 - real / seen)),
        {"real_tokens": real, "padded_tokens": seen},
        _("Smaller micro-batches hold rows of more equal length."),
        {"run.tokens_per_micro_batch": max(128, int(facts.plan.tokens_per_micro_batch / 4)) if facts.plan else 1024},
    )


def much_time_aside(facts: RunFacts) -> Finding | None:
    """Evaluating and saving take much of the time."""
    training = sum(event["step_seconds"] * event["steps"] for event in facts.logs)
    evaluating, saving = _sum(facts.evaluations, "took"), _sum(facts.saves, "took")
    whole = training + evaluating + saving
    if whole < SETTLED_SECONDS or (evaluating + saving) / whole <= MUCH_ASIDE or facts.plan is None:
        return None
    return Finding(
        "speed.much-time-aside",
        "warning",
        _("{share} of the time went into evaluating and saving.").format(
            share=format_share((evaluating + saving) / whole)
        ),
        {"training_seconds": training, "evaluating_seconds": evaluating, "saving_seconds": saving},
        _("Evaluate less often."),
        {"learn.eval_steps": facts.plan.eval_steps * 3},
    )


def still_improving(facts: RunFacts) -> Finding | None:
    """The last evaluation is the best, and better than the one before by more than the sampling error."""
    curve = _curve(facts)
    error = (facts.validation or {}).get("error", {}).get(facts.metric)
    if facts.status.state != "finished" or len(curve) < 3 or error is None:
        return None
    (_before, earlier), (step, last) = curve[len(curve) // 2], curve[-1]
    if last < max(value for _step, value in curve) or last - earlier <= error:
        return None
    epochs = float(facts.values.get("learn.num_train_epochs") or 1.0)
    return Finding(
        "learning.still-improving",
        "note",
        _("The score was still rising at the end: {earlier:.3f} half-way, {last:.3f} at step {step}.").format(
            earlier=earlier, last=last, step=step
        ),
        {"half_way": earlier, "last": last, "error": error},
        _("More epochs may help."),
        {"learn.num_train_epochs": epochs * 2},
    )


def best_long_ago(facts: RunFacts) -> Finding | None:
    """The best step lies in the first half, and validation has become worse since by more than the sampling error."""
    curve = _curve(facts)
    error = (facts.validation or {}).get("error", {}).get(facts.metric)
    if len(curve) < 4 or error is None:
        return None
    best_step, best = max(curve, key=lambda point: point[1])
    last_step, last = curve[-1]
    if best_step > last_step / 2 or best - last <= error:
        return None
    return Finding(
        "learning.best-long-ago",
        "warning",
        _("The best score came at step {best} of {last}; the model has become worse since.").format(
            best=best_step, last=last_step
        ),
        {"best_step": best_step, "best": best, "last": last, "error": error},
        _("Stop early, train for fewer epochs, or raise dropout. The best model is the one that was kept."),
        {"learn.early_stopping_patience": 3},
    )


RULES: list[Rule] = [
    ended_with_error,
    loss_lost,
    constant_predictions,
    no_better_than_baseline,
    class_never_predicted,
    warmup_too_long,
    unusual_rate,
    best_long_ago,
    much_padding,
    much_time_aside,
    still_improving,
]


def _curve(facts: RunFacts) -> list[tuple[int, float]]:
    """Step and validation score, greater being better, of every evaluation with a number."""
    sign = 1.0 if greater_is_better(facts.metric) else -1.0
    points = [(event["step"], event["metrics"].get(facts.metric)) for event in facts.evaluations]
    return [(step, sign * float(value)) for step, value in points if _is_number(value)]


def _round(rate: float) -> float:
    """A learning rate as one would write it: two digits."""
    return float(f"{rate:.1e}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _sum(events: list[dict[str, Any]], name: str) -> float:
    return sum(float(event.get(name) or 0.0) for event in events)

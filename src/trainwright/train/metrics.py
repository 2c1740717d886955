"""What predictions are worth: every score with its baseline and its sampling error, since a number alone says little.

Each function takes counts or arrays of a whole split and gives plain numbers; meters.py gathers what they need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

RESAMPLES = 400  # draws for the sampling error: its own error is then about 1/sqrt(2 x 400) = 3.5 % of it
Z_95 = 1.96  # half-width of a 95 % interval in standard deviations of a normal distribution
Summary = Callable[[np.ndarray], dict[str, float]]

# -- classes and ranks: everything that a confusion matrix says ------------------------------------------------------


def summary(confusion: np.ndarray) -> dict[str, float]:
    """Accuracy, macro-F1 (over classes that occur or are predicted) and Matthews' correlation coefficient.

    The multi-class MCC is that of Gorodkin (2004); it is 0 where a side is constant.

    Args:
        confusion: Counts, shape (classes, classes); rows are the true classes, columns the predicted ones.
    """
    counts = confusion.astype(np.float64)
    right, true, predicted, rows = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0), counts.sum()
    seen = (true + predicted) > 0
    f1 = 2 * right[seen] / (true + predicted)[seen]
    covariance = right.sum() * rows - true @ predicted
    spread = np.sqrt(rows**2 - true @ true) * np.sqrt(rows**2 - predicted @ predicted)
    return {
        "accuracy": float(right.sum() / rows) if rows else float("nan"),
        "macro_f1": float(f1.mean()) if seen.any() else float("nan"),
        "mcc": float(covariance / spread) if spread > 0 else 0.0,
    }


def rank_summary(confusion: np.ndarray) -> dict[str, float]:
    """Quadratic kappa (Cohen 1968; 0 where a side is constant), mean distance in ranks, accuracy, macro-F1.

    Args:
        confusion: Counts, shape (ranks, ranks), lowest rank first.
    """
    counts, rows = confusion.astype(np.float64), max(1.0, float(confusion.sum()))
    places = np.arange(len(counts))
    distance = np.abs(places[:, None] - places[None, :])
    by_chance = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / rows
    expected = float((distance**2 * by_chance).sum())
    plain = summary(confusion)
    return {
        "kappa": 1.0 - float((distance**2 * counts).sum()) / expected if expected else 0.0,
        "mae": float((distance * counts).sum()) / rows,
        "accuracy": plain["accuracy"],
        "macro_f1": plain["macro_f1"],
    }


def scores(
    confusion: np.ndarray, loss: float | None, labels: list[str], constant: int, summarise: Summary = summary
) -> dict[str, Any]:
    """Everything that a confusion matrix says.

    Args:
        confusion: Counts, shape (classes, classes); rows are the true classes, columns the predicted ones.
        loss: Mean loss of the same rows, or None.
        constant: Id of the class that the baseline predicts always: the one that most training rows have, or for ranks
            their median.
        summarise: :func:`summary` or :func:`rank_summary`.

    Returns:
        Scores as ``results.json`` holds them: values, 95 % half-widths, baseline, per class, confusion.
    """
    baseline = np.zeros_like(confusion)
    baseline[:, constant] = confusion.sum(axis=1)
    return {
        "rows": int(confusion.sum()),
        "loss": loss,
        **summarise(confusion),
        "error": sampling_error(confusion, summarise),
        "baseline": summarise(baseline) | {"label": labels[constant]},
        "per_class": list(_per_class(confusion, labels)),
        "confusion": confusion.tolist(),
    }


def sampling_error(confusion: np.ndarray, summarise: Summary = summary) -> dict[str, float]:
    """Half-widths of the 95 % intervals that come from having only these rows.

    The rows are drawn again from the matrix itself (a multinomial bootstrap; Efron and Tibshirani 1993); for accuracy
    this is the binomial error, which has a closed form: 1.96 x sqrt(p (1 - p) / n).
    """
    rows = int(confusion.sum())
    if rows == 0:
        return dict.fromkeys(summarise(confusion), float("nan"))
    cells = confusion.reshape(-1) / rows
    generator = np.random.default_rng(0)
    draws = [summarise(generator.multinomial(rows, cells).reshape(confusion.shape)) for _draw in range(RESAMPLES)]
    accuracy = float(np.trace(confusion)) / rows
    return _half_widths(draws) | {"accuracy": Z_95 * float(np.sqrt(accuracy * (1 - accuracy) / rows))}


def _half_widths(draws: list[dict[str, float]]) -> dict[str, float]:
    return {name: Z_95 * float(np.std([draw[name] for draw in draws])) for name in draws[0]}


def _per_class(confusion: np.ndarray, labels: list[str]) -> Iterator[dict[str, Any]]:
    for number, name in enumerate(labels):
        counts = confusion[number, number], confusion[number].sum(), confusion[:, number].sum()
        yield _class_row(name, *map(int, counts))


def _class_row(name: str, right: int, true: int, predicted: int) -> dict[str, Any]:
    return {
        "label": name,
        "rows": true,
        "recall": right / true if true else None,
        "precision": right / predicted if predicted else None,
        "f1": 2 * right / (true + predicted) if true + predicted else None,
    }


# -- sets of labels --------------------------------------------------------------------------------------------------


def best_threshold(probabilities: np.ndarray, targets: np.ndarray) -> float:
    """The probability from which on a label is given, so that micro-F1 is highest; 0.5 where no label occurs.

    Every cut between two different probabilities is tried: with the k likeliest given, F1 is 2 TP / (k + positives).

    Args:
        probabilities: Shape (rows, labels).
        targets: 0 or 1, the same shape.
    """
    flat, hits = probabilities.reshape(-1).astype(np.float64), targets.reshape(-1) > 0
    if not hits.any():
        return 0.5
    order = np.argsort(-flat, kind="stable")
    f1 = 2 * np.cumsum(hits[order]) / (np.arange(1, len(flat) + 1) + hits.sum())
    given, rest = flat[order], np.append(flat[order][1:], 0.0)
    f1[given == rest] = 0.0  # equal probabilities cannot be told apart
    best = int(f1.argmax())
    return float((given[best] + rest[best]) / 2)


def set_scores(
    given: np.ndarray, targets: np.ndarray, loss: float | None, labels: list[str], train_share: np.ndarray
) -> dict[str, Any]:
    """Scores of sets of labels, as ``results.json`` holds them.

    Args:
        given: The labels that were predicted, bool, (rows, labels).
        targets: The true ones, the same shape.
        train_share: Share of the training rows that have each label, (labels,); the baseline always gives the set of
            frequent labels that scores best on them.
    """
    given, targets = given.astype(bool), targets.astype(bool)
    constant = _best_constant(train_share)
    everywhere = np.broadcast_to(constant, targets.shape)
    right, rows = given & targets, max(1, len(targets))
    generator, draws = np.random.default_rng(0), []
    for _draw in range(RESAMPLES // 4):
        weights = generator.multinomial(rows, np.full(rows, 1 / rows)) if len(targets) else np.zeros(0)
        draws.append(_set_summary(given, targets, weights.astype(np.float64)))
    per_label = zip(labels, right.sum(axis=0), targets.sum(axis=0), given.sum(axis=0), strict=True)
    return {
        "rows": len(targets),
        "loss": loss,
        **_set_summary(given, targets),
        "error": _half_widths(draws),
        "baseline": _set_summary(everywhere, targets)
        | {"label": ", ".join(name for name, is_in in zip(labels, constant, strict=True) if is_in) or "-"},
        "per_class": [_class_row(name, int(hits), int(true), int(said)) for name, hits, true, said in per_label],
    }


def set_summary(given: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Micro-F1, macro-F1 (over labels that occur or are given), and the share of rows whose whole set is right."""
    return _set_summary(given.astype(bool), targets.astype(bool))


def _set_summary(given: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    weights = np.ones(len(targets)) if weights is None else weights
    right, said, true = weights @ (given & targets), weights @ given, weights @ targets
    seen = (said + true) > 0
    return {
        "micro_f1": float(2 * right.sum() / max(1.0, (said + true).sum())),
        "macro_f1": float((2 * right[seen] / (said + true)[seen]).mean()) if seen.any() else float("nan"),
        "exact_match": float(weights @ (given == targets).all(axis=1)) / max(1.0, float(weights.sum())),
    }


def _best_constant(share: np.ndarray) -> np.ndarray:
    """The labels that are best given to every row: the most frequent ones, as many as raise micro-F1."""
    order = np.argsort(-share, kind="stable")
    f1 = 2 * np.cumsum(share[order]) / (np.arange(1, len(share) + 1) + share.sum())
    constant = np.zeros(len(share), bool)
    constant[order[: int(f1.argmax()) + 1]] = True
    return constant


# -- scores ----------------------------------------------------------------------------------------------------------


def regression_scores(
    predicted: np.ndarray, targets: np.ndarray, loss: float | None, train_mean: float
) -> dict[str, Any]:
    """Scores of predicted numbers, as ``results.json`` holds them.

    Args:
        predicted: Shape (rows,).
        targets: Shape (rows,).
        train_mean: Mean of the training rows, which the baseline always predicts.
    """
    predicted, targets = predicted.astype(np.float64), targets.astype(np.float64)
    moments, rows = _moments(predicted, targets), max(1, len(targets))
    generator = np.random.default_rng(0)
    draws = [
        _of_moments(generator.multinomial(rows, np.full(rows, 1 / rows)) @ moments / rows)
        for _draw in range(RESAMPLES if len(targets) else 0)
    ]
    return {
        "rows": len(targets),
        "loss": loss,
        **regression_summary(predicted, targets),
        "error": _half_widths(draws) if draws else {},
        "baseline": regression_summary(np.full_like(targets, train_mean), targets) | {"label": f"{train_mean:.4g}"},
        "scatter": _sample(predicted, targets),
    }


def regression_summary(predicted: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Root of the mean squared error, Pearson's and Spearman's correlation (0 where a side is constant), mean error."""
    return _of_moments(_moments(predicted, targets).mean(axis=0))


def _moments(predicted: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """What the scores are made of, per row; ranks stay those of all rows when rows are drawn again."""
    difference = predicted - targets
    columns = [difference**2, np.abs(difference)]
    for x, y in ((predicted, targets), (_ranks(predicted), _ranks(targets))):
        x, y = x - x.mean(), y - y.mean()  # against cancellation
        columns += [x, y, x * x, y * y, x * y]
    return np.stack(columns, axis=1)


def _of_moments(means: np.ndarray) -> dict[str, float]:
    def correlation(x: float, y: float, xx: float, yy: float, xy: float) -> float:
        spread = (xx - x * x) * (yy - y * y)
        return float((xy - x * y) / np.sqrt(spread)) if spread > 1e-24 else 0.0

    return {
        "rmse": float(np.sqrt(means[0])),
        "pearson": correlation(*means[2:7]),
        "spearman": correlation(*means[7:12]),
        "mae": float(means[1]),
    }


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0; equal values share the mean of theirs."""
    _values, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((2 * ends - counts - 1) / 2)[places]


def _sample(predicted: np.ndarray, targets: np.ndarray, most: int = 500) -> list[list[float]]:
    """Some rows as [true, predicted], evenly taken, for a chart."""
    places = np.unique(np.linspace(0, len(targets) - 1, min(most, len(targets))).astype(int)).tolist()
    return [[round(float(targets[place]), 5), round(float(predicted[place]), 5)] for place in places]

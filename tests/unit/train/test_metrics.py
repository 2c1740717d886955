import json

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import torch

from trainwright.train.meters import ClassMeter, PredictionFile
from trainwright.train.metrics import (
    best_threshold,
    rank_summary,
    regression_scores,
    sampling_error,
    scores,
    set_scores,
    summary,
)


@pytest.fixture
def answers():
    rng = np.random.default_rng(1)
    true = rng.choice(4, size=500, p=[0.5, 0.3, 0.15, 0.05])
    predicted = np.where(rng.random(500) < 0.7, true, rng.integers(0, 4, 500))
    return true, predicted


def confusion_of(true, predicted, classes=4):
    return sklearn.metrics.confusion_matrix(true, predicted, labels=range(classes))


def test_streamed_metrics_are_those_of_scikit_learn(answers):
    true, predicted = answers
    meter = ClassMeter(["a", "b", "c", "d"])
    meter.begin("eval")
    for start in range(0, 500, 64):
        logits = torch.nn.functional.one_hot(torch.tensor(predicted[start : start + 64]), 4).float()
        meter.update(logits, torch.tensor(true[start : start + 64]), list(range(start, start + len(logits))))
    seen = meter.compute()
    assert seen["accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(true, predicted))
    assert seen["macro_f1"] == pytest.approx(sklearn.metrics.f1_score(true, predicted, average="macro"))
    assert seen["mcc"] == pytest.approx(sklearn.metrics.matthews_corrcoef(true, predicted), abs=1e-6)
    assert meter.confusion.tolist() == confusion_of(true, predicted).tolist()


def test_scores_from_the_confusion_matrix_are_those_of_scikit_learn(answers):
    true, predicted = answers
    found = scores(confusion_of(true, predicted), 0.5, ["a", "b", "c", "d"], constant=0)
    assert found["accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(true, predicted))
    assert found["macro_f1"] == pytest.approx(sklearn.metrics.f1_score(true, predicted, average="macro"))
    assert found["mcc"] == pytest.approx(sklearn.metrics.matthews_corrcoef(true, predicted))
    recalls = [one["recall"] for one in found["per_class"]]
    assert recalls == pytest.approx(sklearn.metrics.recall_score(true, predicted, average=None))
    constant = np.zeros_like(true)
    assert found["baseline"]["accuracy"] == pytest.approx((true == 0).mean())
    assert found["baseline"]["macro_f1"] == pytest.approx(sklearn.metrics.f1_score(true, constant, average="macro"))
    assert found["baseline"]["mcc"] == 0.0


def test_the_sampling_error_of_accuracy_is_the_binomial_one_and_of_f1_that_of_resampled_rows(answers):
    true, predicted = answers
    found = sampling_error(confusion_of(true, predicted))
    accuracy = (true == predicted).mean()
    assert found["accuracy"] == pytest.approx(1.96 * (accuracy * (1 - accuracy) / 500) ** 0.5)
    rng = np.random.default_rng(5)
    draws = []
    for _draw in range(300):
        rows = rng.integers(0, 500, 500)  # the bootstrap over rows, written out
        draws.append(sklearn.metrics.f1_score(true[rows], predicted[rows], average="macro"))
    assert found["macro_f1"] == pytest.approx(1.96 * np.std(draws), rel=0.2)


def test_a_class_that_neither_occurs_nor_is_predicted_plays_no_part_and_unknown_is_none():
    confusion = np.array([[3, 1, 0], [0, 4, 0], [0, 0, 0]])
    assert summary(confusion)["macro_f1"] == pytest.approx((2 * 3 / 7 + 2 * 4 / 9) / 2)
    absent = scores(confusion, None, ["a", "b", "c"], constant=1)["per_class"][2]
    assert absent == {"label": "c", "rows": 0, "recall": None, "precision": None, "f1": None}


class FewRows:
    lines = np.array([2, 3, 5, 9])
    labels = np.array([0, 1, 1, 0])

    def text(self, index):
        return f"text {index}"


def test_predictions_are_written_in_the_order_of_the_rows_however_they_arrive(tmp_path):
    file = PredictionFile(tmp_path / "validation.jsonl", FewRows(), ["no", "yes"])
    file.add([2, 0], np.array([[0.2, 0.8], [0.9, 0.1]]), [1, 0])
    assert not (tmp_path / "validation.jsonl").exists()
    file.add([3, 1], np.array([[0.3, 0.7], [0.4, 0.6]]), [1, 1])
    file.close()
    lines = [json.loads(line) for line in (tmp_path / "validation.jsonl").read_text().splitlines()]
    assert [line["row"] for line in lines] == [0, 1, 2, 3]
    assert [line["line"] for line in lines] == [2, 3, 5, 9]
    assert [line["predicted"] for line in lines] == ["no", "yes", "yes", "yes"]
    assert lines[3] | {"text": ""} == {
        "row": 3, "line": 9, "label": "no", "predicted": "yes", "confidence": 0.7,
        "probability": {"no": 0.3, "yes": 0.7}, "text": "",
    }  # fmt: skip


@pytest.fixture
def sets():
    """Probabilities of four labels for 300 rows, with the true ones; the last label occurs in no row."""
    rng = np.random.default_rng(2)
    targets = rng.random((300, 4)) < [0.5, 0.2, 0.05, 0.0]
    probabilities = np.round(np.clip(0.4 * targets + rng.random((300, 4)) * 0.6, 0, 1), 2)  # rounded: some are equal
    return probabilities, targets


def test_the_threshold_is_the_best_of_all(sets):
    probabilities, targets = sets

    def f1(cut):
        return sklearn.metrics.f1_score(targets, probabilities >= cut, average="micro", zero_division=0)

    best = max(f1(cut) for cut in np.unique(probabilities))
    assert f1(best_threshold(probabilities, targets)) == pytest.approx(best)
    assert best_threshold(probabilities, np.zeros_like(targets)) == 0.5


def test_scores_of_sets_are_those_of_scikit_learn(sets):
    probabilities, targets = sets
    given = probabilities >= 0.5
    found = set_scores(given, targets, 0.3, list("abcd"), np.array([0.5, 0.2, 0.05, 0.0]))
    assert found["micro_f1"] == pytest.approx(sklearn.metrics.f1_score(targets, given, average="micro"))
    seen = [label for label in range(4) if targets[:, label].any() or given[:, label].any()]
    of_each = sklearn.metrics.f1_score(targets, given, average=None, zero_division=0)
    assert found["macro_f1"] == pytest.approx(of_each[seen].mean())
    assert found["exact_match"] == pytest.approx(sklearn.metrics.accuracy_score(targets, given))
    # always "a": 2 x 0.5 / (1 + 0.75) is more than always "a" and "b": 2 x 0.7 / (2 + 0.75)
    assert found["baseline"]["label"] == "a"
    always = np.tile([True, False, False, False], (300, 1))
    assert found["baseline"]["micro_f1"] == pytest.approx(sklearn.metrics.f1_score(targets, always, average="micro"))
    exact = found["exact_match"]
    assert found["error"]["exact_match"] == pytest.approx(1.96 * (exact * (1 - exact) / 300) ** 0.5, rel=0.25)


def test_scores_of_numbers_are_those_of_scipy():
    rng = np.random.default_rng(3)
    true = np.round(rng.normal(50, 2, 400), 1)  # far from 0, and with equal ones
    predicted = true + rng.normal(0, 1, 400)
    found = regression_scores(predicted, true, None, train_mean=49.0)
    assert found["rmse"] == pytest.approx(sklearn.metrics.mean_squared_error(true, predicted) ** 0.5)
    assert found["mae"] == pytest.approx(sklearn.metrics.mean_absolute_error(true, predicted))
    assert found["pearson"] == pytest.approx(scipy.stats.pearsonr(true, predicted).statistic)
    assert found["spearman"] == pytest.approx(scipy.stats.spearmanr(true, predicted).statistic)
    assert found["baseline"]["rmse"] == pytest.approx(np.sqrt(((true - 49.0) ** 2).mean()))
    assert found["baseline"]["pearson"] == 0.0
    assert found["error"]["mae"] == pytest.approx(1.96 * np.abs(predicted - true).std() / 20, rel=0.15)


def test_scores_of_ranks_are_those_of_scikit_learn(answers):
    true, predicted = answers
    found = rank_summary(confusion_of(true, predicted))
    kappa = sklearn.metrics.cohen_kappa_score(true, predicted, weights="quadratic")
    assert found["kappa"] == pytest.approx(kappa)
    assert found["mae"] == pytest.approx(np.abs(true - predicted).mean())
    assert rank_summary(np.array([[3, 0], [2, 0]]))["kappa"] == 0.0

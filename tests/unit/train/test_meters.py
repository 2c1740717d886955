"""Meters of sets, scores and ranks: fed in batches in any order, as evaluation does it."""

import json

import numpy as np
import pytest
import torch

from trainwright.train.meters import RankMeter, ScoreMeter, SetMeter


class Rows:
    """What a meter asks of a split."""

    lines = np.arange(2, 100)

    def text(self, index):
        return f"text {index}"


def feed(meter, logits, labels):
    """Two batches, the last rows first."""
    meter.begin("eval")
    half = len(logits) // 2
    for places in (range(half, len(logits)), range(half)):
        meter.update(torch.tensor(logits)[list(places)], torch.tensor(labels)[list(places)], list(places))
    return meter.compute()


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_validation_chooses_the_threshold_and_test_keeps_it(tmp_path):
    meter = SetMeter(["a", "b"], tmp_path, np.array([0.5, 0.25]))
    meter.watch("validation", Rows())
    logits = torch.logit(torch.tensor([[0.4, 0.1], [0.2, 0.35], [0.1, 0.15], [0.45, 0.05]])).tolist()
    assert feed(meter, logits, [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])["exact_match"] == 1.0
    assert meter.learnt()["threshold"] == pytest.approx((0.35 + 0.2) / 2)
    assert [row["predicted"] for row in read(tmp_path / "validation.jsonl")] == [["a"], ["b"], [], ["a"]]
    meter.watch("test", Rows())
    feed(meter, torch.logit(torch.tensor([[0.9, 0.8], [0.3, 0.2]])).tolist(), [[1.0, 0.0], [0.0, 0.0]])
    assert meter.learnt()["threshold"] == pytest.approx((0.35 + 0.2) / 2)
    (first, second) = read(tmp_path / "test.jsonl")
    assert (first["label"], first["predicted"], first["confidence"]) == (["a"], ["a", "b"], 0.8)
    assert (second["label"], second["predicted"]) == ([], ["a"])


def test_scores_are_written_with_their_distance(tmp_path):
    meter = ScoreMeter(tmp_path, train_mean=1.0)
    meter.watch("validation", Rows())
    found = feed(meter, [[0.5], [1.0], [3.0], [2.0]], [0.0, 1.0, 1.0, 2.0])
    assert found["rmse"] == pytest.approx(((0.25 + 4) / 4) ** 0.5)
    assert [row["error"] for row in read(tmp_path / "validation.jsonl")] == [0.5, 0.0, 2.0, 0.0]
    assert meter.scores(0.1)["baseline"]["mae"] == 0.5


def test_ranks_are_counted_from_the_outputs_that_say_above():
    meter = RankMeter(["low", "middle", "high"], None, majority=1)
    found = feed(meter, [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [1.0, 1.0]], [[0.0, 0], [1, 0], [1, 1], [0, 0]])
    assert meter.confusion.tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 1]]
    assert found["mae"] == 0.5
    baseline = meter.scores(None)["baseline"]  # always "middle": three of four rows are one rank off
    assert (baseline["label"], baseline["mae"], baseline["accuracy"]) == ("middle", 0.75, 0.25)

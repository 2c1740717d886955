"""Every task goes the whole road on a tiny set: recipe, training, report, prediction, export, proof, exact resume."""

import json
import os
import random
import signal

import pytest
from running import only_run, start, wait_for_step
from transformers import AutoModelForSequenceClassification

from trainwright.recipe.tasks import TASKS
from trainwright.runs.journal import read_events, steps_of

pytestmark = pytest.mark.e2e

RECIPE = """
name: tiny
task: {task}
model: {model}
data: {{train: {train}, validation: 20%, test: 10%, max_length: 32{data}}}
learn: {{num_train_epochs: {epochs}, batch_size: 16, learning_rate: 3.0e-3, dropout: 0.1, seed: 3}}
run: {{precision: fp32, device: cpu, tokens_per_micro_batch: 128}}
trainer: {{logging_steps: 1}}
"""
# What the labels are in each case, from whether a review is good, and what the recipe says of them.
CASES = {
    "pair": ("text-classification", lambda good, draw: "yes" if good == draw else "no", ", text_pair: second"),
    "multi-label": ("multi-label", lambda good, draw: ["good"] * good + ["long"] * draw, ""),
    "regression": ("regression", lambda good, draw: 1.5 * good - 0.5, ""),
    "ordinal": ("ordinal", lambda good, draw: 2 * good + draw * good, ""),
}


@pytest.fixture
def make_recipe(tmp_path, tiny_bert, review_rows):
    def write(case, epochs=3):
        task, label_of, data = CASES[case]
        draws, rows = random.Random(1), []
        for text, word in review_rows:
            good, draw = word == "good", draws.random() < 0.5
            second = "it was superb" if draw else "it was awful"
            more = " the lamp" * 6 if draw and case != "pair" else ""
            rows.append({"text": text + more, "second": second, "label": label_of(good, draw)})
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text(RECIPE.format(task=task, model=tiny_bert, train=path, data=data, epochs=epochs))
        return recipe

    return write


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_task_goes_from_recipe_to_report_prediction_export_and_proof(case, make_recipe, trainwright, tmp_path):
    recipe = make_recipe(case)
    trainwright("train", recipe, "--runs", tmp_path / "runs")
    run = only_run(tmp_path / "runs")
    kind, results = TASKS[CASES[case][0]], run.results()
    for split in ("validation", "test"):
        assert {"rows", "loss", "error", "baseline", *kind.metrics} <= set(results[split])
    assert run.resolved()["learn.metric_for_best_model"].value == kind.metrics[0]
    page = run.report.read_text(encoding="utf-8")
    assert "baseline" in page
    assert ("Every class" in page) == (kind.label != "score")
    assert len((run.predictions / "validation.jsonl").read_text().splitlines()) == results["validation"]["rows"]

    pair = ["--text-pair", "it was superb"] if case == "pair" else []
    assert "the kettle was superb" in trainwright("predict", run.path, "--text", "the kettle was superb", *pair).stdout
    rows = tmp_path / "rows.jsonl"
    trainwright("predict", run.path, rows, "-o", tmp_path / "said.jsonl")
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert len(said) == 200
    assert {"text", "label", "predicted"} <= set(said[0])
    by_line = {}
    for split in ("validation", "test"):
        lines = map(json.loads, (run.predictions / f"{split}.jsonl").read_text().splitlines())
        by_line |= {row["line"]: row["predicted"] for row in lines}
    for line, predicted in by_line.items():  # the evaluation and a later prediction say the same of a row
        if kind.label == "score":
            assert said[line - 1]["predicted"] == pytest.approx(predicted, abs=1e-4)
        else:
            assert said[line - 1]["predicted"] == predicted

    trainwright("export", run.path, "--to", "hf", "-o", tmp_path / "hf")
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path / "hf").config.trainwright["task"] == kind.name
    assert "it is the same step" in trainwright("prove", recipe, "--steps", 1).stdout


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_killed_run_of_any_task_ends_the_same_to_the_bit(case, make_recipe, trainwright, tmp_path):
    recipe = make_recipe(case, epochs=6)
    words = ("train", recipe, "--no-rehearse", "--runs")
    trainwright(*words, tmp_path / "whole")
    process = start(tmp_path, *words, tmp_path / "cut")
    folder = wait_for_step(tmp_path / "cut", 14)
    os.kill(folder.status().worker_pid, signal.SIGKILL)
    assert process.wait(timeout=120) == 0
    ends = []
    for root in ("whole", "cut"):
        run = only_run(tmp_path / root)
        losses = [(event["step"], event["loss"]) for event in steps_of(read_events(run.journal), "log")]
        ends.append(((run.model / "model.safetensors").read_bytes(), losses))
    assert ends[0] == ends[1]

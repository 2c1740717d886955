"""From a recipe to a report, a model that plain transformers loads, and predictions."""

import csv
import json
import subprocess
import sys

import pytest
from running import only_run

from trainwright.runs.journal import read_events, steps_of

EPOCHS = 12  # enough for the tiny model, drawn at random, to learn that one word tells the label


def test_a_recipe_becomes_a_reported_and_reusable_model(tmp_path, recipe, trainwright):
    shown = trainwright("train", recipe(EPOCHS), "--runs", tmp_path / "runs")
    folder = only_run(tmp_path / "runs")
    assert folder.status().state == "finished"
    assert folder.status().exit_code == 0
    plan, results = folder.plan(), folder.results()
    # 200 rows, 20 % held out: 160 rows in steps of 16 are 10 steps an epoch
    assert (plan.steps_per_epoch, plan.steps) == (10, 10 * EPOCHS)
    assert results["steps"] == 10 * EPOCHS
    assert results["validation"]["rows"] == 40
    assert results["validation"]["accuracy"] > 0.9  # one word tells the label
    assert results["validation"]["baseline"]["accuracy"] == pytest.approx(0.5, abs=0.05)
    events = read_events(folder.journal)
    assert [event["step"] for event in steps_of(events, "log")] == list(range(1, 10 * EPOCHS + 1))
    assert steps_of(events, "log", rehearsal=True)
    report = folder.report.read_text()
    assert len(report.encode()) < 1_000_000
    assert "http://" not in report.replace("http://www.w3.org", "")
    assert folder.id in shown.stdout

    # plain transformers, no Trainwright
    code = (
        "import sys; from transformers import pipeline; p = pipeline('text-classification', sys.argv[1]); "
        "print(p('the kettle was dreadful')[0]['label'], p('a song that is simply superb')[0]['label'])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder.model)], capture_output=True, text=True)
    assert done.stdout.split() == ["bad", "good"], done.stderr

    predictions = [json.loads(line) for line in (folder.predictions / "validation.jsonl").read_text().splitlines()]
    assert [line["row"] for line in predictions] == list(range(40))
    right = sum(line["predicted"] == line["label"] for line in predictions)
    assert right / 40 == pytest.approx(results["validation"]["accuracy"])
    assert list((folder.tensorboard).glob("events.out.tfevents.*"))


def test_every_value_in_force_is_written_down_with_its_origin_and_reason(tmp_path, recipe, trainwright):
    trainwright("train", recipe(1), "--runs", tmp_path / "runs", "--set", "learn.batch_size=32", "--no-rehearse")
    values = only_run(tmp_path / "runs").resolved()
    assert (values["learn.batch_size"].value, values["learn.batch_size"].origin) == (32, "--set")
    assert values["learn.learning_rate"].origin == "recipe"
    assert values["learn.weight_decay"].origin == "default"
    for name in ("learn.warmup_steps", "learn.eval_steps"):
        assert values[name].origin == "chosen"
        assert values[name].because
    assert not steps_of(read_events(only_run(tmp_path / "runs").journal), "log", rehearsal=True)


def test_a_second_run_finds_its_data_prepared(tmp_path, recipe, trainwright):
    trainwright("train", recipe(1), "--runs", tmp_path / "one", "--no-rehearse")
    trainwright("train", recipe(1), "--runs", tmp_path / "two", "--no-rehearse")
    one, two = only_run(tmp_path / "one"), only_run(tmp_path / "two")
    assert not one.prepared().cached
    assert two.prepared().cached
    assert two.prepared().because
    assert not list(two.journal.glob("*-prepare-*"))
    losses = [[event["loss"] for event in steps_of(read_events(run.journal), "log")] for run in (one, two)]
    assert losses[0] == losses[1]


def test_the_rehearsal_changes_nothing_that_is_learned(tmp_path, recipe, trainwright):
    trainwright("train", recipe(1), "--runs", tmp_path / "with")
    trainwright("train", recipe(1), "--runs", tmp_path / "without", "--no-rehearse")
    weights = [(only_run(tmp_path / name).model / "model.safetensors").read_bytes() for name in ("with", "without")]
    assert weights[0] == weights[1]


def test_predict_writes_row_for_row_and_export_gives_a_folder(tmp_path, recipe, trainwright):
    trainwright("train", recipe(EPOCHS), "--runs", tmp_path / "runs", "--no-rehearse")
    folder = only_run(tmp_path / "runs")
    rows = [["id", "text"], ["007", "the lamp was superb"], ["8", ""], ['say "9"', "the chair\nwas awful"]]
    with open(tmp_path / "new.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    trainwright("predict", folder.path, "new.csv")
    with open(tmp_path / "new.predictions.csv", newline="") as file:
        written = list(csv.reader(file))
    assert [row[:2] for row in written] == rows
    assert written[0][2:] == ["predicted", "confidence", "probability_bad", "probability_good"]
    assert written[1][2] == "good"
    assert written[3][2] == "bad"
    assert all(float(row[4]) + float(row[5]) == pytest.approx(1, abs=1e-4) for row in written[1:])
    shown = trainwright("predict", folder.path, "--text", "my phone came today and it is useless in every way")
    assert shown.stdout.startswith("bad")
    trainwright("export", folder.path, "--to", "hf", "-o", "exported")
    assert (tmp_path / "exported" / "model.safetensors").exists()
    again = trainwright("predict", folder.path, "new.csv", expect=2)
    assert "new.predictions.csv" in again.stderr


def test_layer_wise_rates_class_weights_and_smoothing_reach_the_run(tmp_path, recipe, trainwright):
    sets = ["learn.layerwise_lr_decay=0.5", "learn.class_weights=balanced", "learn.label_smoothing_factor=0.1"]
    sets += ["learn.early_stopping_patience=1", "learn.eval_steps=2", "learn.dropout=0.2"]
    words = [word for one in sets for word in ("--set", one)]
    trainwright("train", recipe(4), "--runs", tmp_path / "runs", "--no-rehearse", *words)
    folder = only_run(tmp_path / "runs")
    rates = {group["name"]: group["learning_rate"] for group in folder.results()["groups"]}
    assert rates == pytest.approx({"head": 3e-3, "layer 2": 1.5e-3, "layer 1": 7.5e-4, "embeddings": 3.75e-4})
    config = json.loads((folder.model / "config.json").read_text())
    assert config["hidden_dropout_prob"] == config["attention_probs_dropout_prob"] == 0.2
    assert config["id2label"] == {"0": "bad", "1": "good"}
    results = folder.results()
    assert results["stopped_early"] == (results["steps"] < 40)


def test_runs_and_show_say_what_there_is(tmp_path, recipe, trainwright):
    trainwright("train", recipe(1), "--runs", tmp_path / "runs", "--no-rehearse")
    folder = only_run(tmp_path / "runs")
    assert folder.id in trainwright("runs", "--runs", tmp_path / "runs").stdout.replace("\n", "")
    shown = trainwright("show", "last", "--runs", tmp_path / "runs").stdout
    assert "finished" in shown
    chinese = trainwright("--lang", "zh", "show", "last", "--report", "--runs", tmp_path / "runs").stdout
    assert any("\u4e00" <= letter <= "\u9fff" for letter in chinese)
    assert 'lang="zh' in folder.report.read_text()
    assert "nothing" in trainwright("resume", "last", "--runs", tmp_path / "runs", expect=3).stderr


def test_init_writes_a_recipe_that_trains(tmp_path, reviews_csv, tiny_bert, trainwright):
    shown = trainwright("init", reviews_csv, "--model", tiny_bert)
    assert "recipe.yaml" in shown.stdout
    trainwright("train", "recipe.yaml", "--runs", "runs", "--set", "learn.num_train_epochs=1", "--no-rehearse")
    assert only_run(tmp_path / "runs").status().state == "finished"
    assert trainwright("init", reviews_csv, expect=2).stderr.count("recipe.yaml") >= 1

"""``trainwright plan``: what a recipe will take, before it takes it; and what a run says of it afterwards."""

import json
import os

from running import only_run

HEAVY = "import sys\nsys.modules['torch'] = sys.modules['transformers'] = sys.modules['datasets'] = None\n"


def test_a_plan_is_light_once_the_data_is_prepared_and_leaves_no_run(tmp_path, recipe, trainwright):
    written = recipe()
    trainwright("plan", written)
    before = sorted(tmp_path.iterdir())
    light = tmp_path / "light"
    light.mkdir()
    (light / "sitecustomize.py").write_text(HEAVY)
    path = os.pathsep.join([str(light), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = trainwright("plan", written, "--on", "a100-80g", "--price", "36 CNY/h", "--json", PYTHONPATH=path)
    planned = json.loads(done.stdout)[0]["plan"]
    assert planned["forecast"]["device"] == "A100 80GB"
    assert planned["forecast"]["price"] == "36.00 CNY"
    assert planned["forecast"]["cost"].endswith(" CNY")
    assert planned["steps"] == 20  # 160 training rows in steps of 16, twice
    assert sorted(tmp_path.iterdir()) == sorted([*before, light])


def test_cards_are_compared_and_one_that_cannot_do_it_says_why(recipe, trainwright):
    done = trainwright("plan", recipe(), "--compare", "a100-80g,v100", "--set", "run.precision=bf16", COLUMNS="200")
    assert "A100 80GB" in done.stdout
    assert "only emulates it" in done.stdout


def test_a_run_says_what_was_predicted_and_the_next_plan_learns_from_it(tmp_path, recipe, trainwright):
    written = recipe()
    done = trainwright("train", written, "--no-rehearse", "--set", "run.price_per_hour=360 CNY")
    run = only_run(tmp_path / "runs")
    memory, time, cost = run.results()["hindsight"]
    assert memory["predicted"] > 2**28
    assert memory["measured"] > 2**28
    assert abs(memory["error"]) < 0.5
    assert abs(cost["measured"] - time["measured"] / 10) < 1e-6  # 360 CNY an hour is 1 CNY in 10 s
    assert "predicted" in done.stdout
    assert "Plan against measured" in run.report.read_text()
    again = json.loads(trainwright("plan", written, "--json").stdout)[0]["plan"]["forecast"]
    assert "past runs of this model" in again["because"]["speed"]
    assert abs(again["memory_total"] / memory["measured"] - 1) < 0.02

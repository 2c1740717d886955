"""Going on with another recipe or other rows: refused with both values, or agreed to and then in force."""

import pytest
from running import only_run

from trainwright.runs.journal import read_events, steps_of


@pytest.fixture
def finished(tmp_path, recipe, trainwright):
    trainwright("train", recipe(1), "--runs", tmp_path / "runs", "--no-rehearse")  # 160 rows in batches of 16
    return only_run(tmp_path / "runs")


def test_a_finished_run_has_nothing_to_do_until_more_epochs_are_agreed_to(finished, trainwright, reviews_csv):
    for words in ([], ["--set", "run.keep_checkpoints=3"], ["--set", "learn.learning_rate=1e-4"]):
        assert "nothing to do" in trainwright("resume", finished.path, *words, expect=3).stderr
    longer = ("resume", finished.path, "--set", "learn.num_train_epochs=2")
    refused = trainwright(*longer, expect=2).stderr
    assert "learn.num_train_epochs: 1.0 -> 2.0" in refused
    # linear to 0 after 10 steps; of 20 with 1 of warm-up, (20 - 10) / (20 - 1) x 0.003 = 0.001579
    assert "After step 10 the learning rate goes from 0 to 0.001579" in refused
    assert finished.status().state == "finished"
    assert finished.resolved()["learn.num_train_epochs"].value == 1.0

    trainwright(*longer, "--accept")
    assert finished.status().step == 20
    logs = {event["step"]: event["learning_rate"] for event in steps_of(read_events(finished.journal), "log")}
    assert logs[11] == pytest.approx(3e-3 * 10 / 19, rel=1e-6)
    assert logs[20] == pytest.approx(3e-3 * 1 / 19, rel=1e-6)
    assert [finding.id for finding in finished.findings()].count("resume.changed") == 1

    # the last row under the other label: other rows
    text = reviews_csv.read_text().rstrip("\n")
    other = "bad" if text.endswith("good") else "good"
    reviews_csv.write_text(text.rpartition(",")[0] + f",{other}\n")
    finished.set_status(state="stopped")
    refused = trainwright("resume", finished.path, expect=2)
    assert "data.key: " in refused.stderr
    assert "would learn something else" in refused.stderr

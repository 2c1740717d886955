import pytest

from trainwright.diagnose.engine import diagnose
from trainwright.records import Finding
from trainwright.runs.journal import Journal


def found(folder):
    return {finding.id: finding for finding in diagnose(folder)}


def test_a_healthy_run_has_no_findings(made_up_run):
    assert found(made_up_run()) == {}


def test_a_failed_run_says_why_and_what_to_do(made_up_run):
    folder = made_up_run(state="failed", because="The disk is full.")
    Journal(folder.journal, "0").write("error", type="DataError", message="The disk is full.", way_out="Free some.")
    finding = found(folder)["run.failed"]
    assert (finding.severity, finding.message, finding.remedy) == ("error", "The disk is full.", "Free some.")


def test_a_failed_rehearsal_is_told_from_a_failed_run(made_up_run):
    folder = made_up_run(state="failed", because="out of memory", steps=0, began=False)
    Journal(folder.journal, "0").write("phase", phase="rehearse")  # it may fail before its first step is logged
    assert "rehearsal" in found(folder)["run.rehearsal-failed"].message


def test_a_failure_before_the_first_log_line_of_training_is_no_failed_rehearsal(made_up_run):
    folder = made_up_run(state="failed", because="out of memory", steps=0, began=False)
    journal = Journal(folder.journal, "0")
    journal.write("phase", phase="rehearse")
    journal.write("log", step=1, loss=1.0, rehearsal=True, real_tokens=1, padded_tokens=1, step_seconds=1, steps=1)
    journal.write("phase", phase="train")
    assert "run.failed" in found(folder)


def test_a_lost_loss_names_its_first_step_and_a_lower_rate(made_up_run):
    folder = made_up_run(losses=lambda step: float("nan") if step >= 41 else 0.5)
    finding = found(folder)["learning.loss-lost"]
    assert finding.evidence["step"] == 41
    assert finding.change == {"learn.learning_rate": 1e-5}


def test_without_a_known_rate_none_is_proposed(made_up_run):
    folder = made_up_run(losses=lambda step: float("nan"))
    (folder.path / "resolved.json").unlink()
    assert found(folder)["learning.loss-lost"].change == {}


def test_infinite_loss_is_lost_too(made_up_run):
    assert "learning.loss-lost" in found(made_up_run(losses=lambda step: float("inf")))


def test_constant_predictions_are_seen_while_the_labels_are_spread(made_up_run):
    finding = found(made_up_run(labels=["a", "b"], confusion=[[0, 40], [0, 60]]))["learning.constant-predictions"]
    assert finding.evidence["share"] == 1.0
    assert finding.evidence["label"] == "b"


def test_constant_labels_are_no_constant_predictions(made_up_run):
    assert "learning.constant-predictions" not in found(made_up_run(labels=["a", "b"], confusion=[[0, 4], [0, 96]]))


def test_no_better_than_the_majority_is_judged_by_the_sampling_error(made_up_run):
    assert "learning.no-better-than-baseline" in found(made_up_run(labels=["a", "b"], confusion=[[30, 0], [28, 1]]))


def test_a_class_that_is_never_predicted_is_named(made_up_run):
    finding = found(made_up_run(confusion=[[40, 0, 10], [3, 0, 2], [1, 0, 60]]))["learning.class-never-predicted"]
    assert finding.evidence["classes"] == [{"label": "neutral", "rows": 5}]
    assert finding.change == {"learn.class_weights": "balanced"}


@pytest.mark.parametrize(("warmup", "seen"), [(99, False), (100, True), (500, True)])
def test_a_warm_up_as_long_as_the_run_is_seen(made_up_run, warmup, seen):
    assert ("learning.warmup-too-long" in found(made_up_run(plan={"warmup_steps": warmup}))) == seen


@pytest.mark.parametrize(("rate", "seen"), [(1e-6, False), (1e-3, False), (2e-3, True), (1e-9, True)])
def test_a_rate_outside_the_usual_range_is_seen(made_up_run, rate, seen):
    assert ("learning.unusual-rate" in found(made_up_run(values={"learn.learning_rate": rate}))) == seen


@pytest.mark.parametrize(("padding", "seen"), [(0.45, False), (0.55, True)])
def test_padding_above_half_is_seen(made_up_run, padding, seen):
    assert ("speed.much-padding" in found(made_up_run(padding=padding))) == seen


@pytest.mark.parametrize(("took", "seen"), [(0.7, False), (0.01, False), (0.3, False)])
def test_evaluations_that_are_cheap_or_of_a_short_run_are_no_finding(made_up_run, took, seen):
    assert ("speed.much-time-aside" in found(made_up_run(took=took))) == seen


def test_much_time_for_evaluating_is_seen_in_a_long_run(made_up_run):
    # 200 steps of 0.2 s are 40 s; 10 evaluations of 1 s and saves of 0.2 s are 12 s: 23 % - but the run is short
    folder = made_up_run(steps=400, took=0.2)  # 80 s and 24 s: 23 %
    assert found(folder)["speed.much-time-aside"].evidence["evaluating_seconds"] == 20.0


def test_a_score_still_rising_at_the_end_suggests_more_epochs(made_up_run):
    finding = found(made_up_run(curve=lambda step: 0.3 + step / 200))["learning.still-improving"]
    assert finding.severity == "note"
    assert finding.change == {"learn.num_train_epochs": 2.0}


def test_a_best_step_long_ago_with_a_fall_since_is_seen(made_up_run):
    falling = found(made_up_run(curve=lambda step: 0.9 - step / 250))
    assert falling["learning.best-long-ago"].evidence["best_step"] == 20


def test_a_fall_within_the_sampling_error_is_none(made_up_run):
    assert "learning.best-long-ago" not in found(made_up_run(curve=lambda step: 0.9 - step / 10_000))


def test_errors_come_before_warnings_and_notes(made_up_run):
    folder = made_up_run(
        state="failed", because="x", values={"learn.learning_rate": 1.0}, losses=lambda step: float("nan")
    )
    assert [finding.severity for finding in diagnose(folder)] == ["error", "error", "warning"]


def test_what_the_training_process_found_itself_is_kept_once_in_its_own_words(made_up_run):
    folder = made_up_run(state="failed", losses=lambda step: float("nan"))
    rows = {"step": 3, "rows": [17]}
    journal = Journal(folder.journal, "0")
    for evidence in ({"step": 2}, rows):
        journal.write("finding", finding=Finding("learning.loss-lost", "error", "The loss is lost.", evidence))
    findings = [finding for finding in diagnose(folder) if finding.id == "learning.loss-lost"]
    assert [finding.evidence for finding in findings] == [rows]

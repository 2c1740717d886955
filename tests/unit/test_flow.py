from trainwright.diagnose.engine import diagnose
from trainwright.errors import CheckFailed, DataError, GaveUp, Stopped
from trainwright.flow import ended_state, note_model, show_in_panel
from trainwright.machine.madeup import made_up
from trainwright.model.check import LocalModel
from trainwright.runs.folder import RunFolder


def test_on_autodl_the_panel_shows_the_runs_curves_and_elsewhere_nothing_is_linked(tmp_path):
    folder, panel = RunFolder(tmp_path / "run"), tmp_path / "tf-logs"
    panel.mkdir()
    show_in_panel(folder, made_up("a100-80g"), panel)
    assert not list(panel.iterdir())
    show_in_panel(folder, made_up("autodl-a100"), panel)
    assert (panel / "run").readlink() == folder.tensorboard
    show_in_panel(folder, made_up("autodl-a100"), panel)  # a second time does no harm


def test_a_mistake_before_training_refuses_the_run_and_one_after_a_checkpoint_leaves_it_resumable(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.recipe_file.write_text("")
    folder.checkpoints.mkdir()
    assert ended_state(folder, DataError("x")) == "refused"
    assert ended_state(folder, Stopped("x")) == "stopped"
    assert ended_state(folder, CheckFailed("x")) == ended_state(folder, GaveUp("x")) == "failed"
    (folder.checkpoints / "checkpoint-5").mkdir()
    assert ended_state(folder, DataError("x")) == "failed"


def test_what_the_models_head_means_for_the_labels_is_among_the_findings_once(made_up_run, tiny_bert):
    folder = made_up_run()  # three labels
    config = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "no", "1": "yes"}}
    for _start in range(2):
        note_model(folder, LocalModel(tiny_bert, config, 128, ""))
    found = diagnose(folder)
    assert [finding.id for finding in found] == ["model.head-size"]
    assert "2 classes and the data has 3" in found[0].message

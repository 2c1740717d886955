from trainwright.errors import CheckFailed, DataError, GaveUp, Stopped
from trainwright.flow import ended_state, show_in_panel
from trainwright.machine.madeup import made_up
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

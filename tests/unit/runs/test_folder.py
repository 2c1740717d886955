import json
import multiprocessing

import pytest

import trainwright.runs.folder as runs
from trainwright.errors import UserError
from trainwright.records import Choice, to_plain
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Follower, Journal, read_events, steps_of


def test_a_folder_is_made_once_however_many_begin_at_the_same_moment(tmp_path):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        made = pool.starmap(runs.create, [(tmp_path, "my run!")] * 8)
    assert len({folder.path for folder in made}) == 8
    assert all(folder.id.startswith("my-run-") for folder in made)
    assert len(runs.all_runs(tmp_path)) == 8


def test_a_run_is_found_by_path_id_beginning_or_last(tmp_path):
    one, two = runs.create(tmp_path, "alpha"), runs.create(tmp_path, "beta")
    assert runs.find(tmp_path, str(one.path)).path == one.path
    assert runs.find(tmp_path, one.id).path == one.path
    assert runs.find(tmp_path, "bet").path == two.path
    assert runs.find(tmp_path, "last").path == two.path


def test_an_unknown_run_names_the_known_ones_and_an_ambiguous_one_all_that_fit(tmp_path):
    one = runs.create(tmp_path, "alpha")
    with pytest.raises(UserError, match=one.id):
        runs.find(tmp_path, "gamma")
    runs.create(tmp_path, "alpha")
    with pytest.raises(UserError, match="fits several"):
        runs.find(tmp_path, "alpha")


def test_a_status_keeps_what_is_not_changed_and_beats(tmp_path):
    folder = runs.create(tmp_path, "x")
    first = folder.status()
    folder.set_status(state="training", step=3)
    assert (folder.status().state, folder.status().step, folder.status().pid) == ("training", 3, first.pid)
    assert folder.status().heartbeat >= first.heartbeat
    assert json.loads((folder.path / "status.json").read_text())["format"] == 1


def test_a_status_that_is_being_written_is_never_read_in_part(tmp_path):
    folder = runs.create(tmp_path, "x")
    process = multiprocessing.get_context("fork").Process(target=_beat, args=(folder,))
    process.start()
    while process.is_alive():
        assert folder.status().state in ("opened", "training")
    process.join()


def _beat(folder):
    for step in range(300):
        folder.set_status(state="training", step=step, because="x" * 5000)


def test_values_are_read_back_as_they_were_written(tmp_path):
    folder = RunFolder(tmp_path)
    values = {"a": Choice(5e-5, "recipe"), "b": Choice([1, "x"], "chosen", "why"), "c": Choice(None, "default")}
    folder.write_resolved(values)
    assert folder.resolved() == values


def test_not_a_number_is_never_written_as_a_number():
    assert to_plain({"loss": float("nan"), "norm": float("inf")}) == {"loss": "nan", "norm": "inf"}


def test_missing_files_read_as_nothing(tmp_path):
    folder = RunFolder(tmp_path / "none")
    assert folder.plan() is folder.machine() is folder.prepared() is folder.audit() is folder.results() is None
    assert folder.resolved() == {}
    assert folder.findings() == []


def test_each_start_writes_a_file_of_its_own_and_the_latest_attempt_wins_for_a_redone_step(tmp_path):
    first = Journal(tmp_path, "0")
    for step in (1, 2, 3):
        first.write("log", step=step, loss=1.0)
    second = Journal(tmp_path, "0")
    second.write("log", step=3, loss=0.5)
    second.write("log", step=4, loss=0.4, rehearsal=False)
    second.write("log", step=1, loss=9.0, rehearsal=True)
    assert first.path != second.path
    events = read_events(tmp_path)
    assert [(event["step"], event["loss"]) for event in steps_of(events, "log")] == [
        (1, 1.0),
        (2, 1.0),
        (3, 0.5),
        (4, 0.4),
    ]
    assert [event["loss"] for event in steps_of(events, "log", rehearsal=True)] == [9.0]


def test_a_torn_last_line_is_skipped_and_read_when_it_is_whole(tmp_path):
    journal = Journal(tmp_path, "0")
    journal.write("log", step=1)
    follower = Follower(tmp_path)
    with open(journal.path, "ab") as file:
        file.write(b'{"event": "log", "st')
        file.flush()
        assert [event["step"] for event in follower.new_events()] == [1]
        assert [event["step"] for event in read_events(tmp_path)] == [1]
        file.write(b'ep": 2}\n')
    assert [event["step"] for event in follower.new_events()] == [2]
    assert follower.new_events() == []

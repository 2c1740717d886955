import pytest

from trainwright.errors import GaveUp, KilledBySystem
from trainwright.launch import watchdog
from trainwright.runs.journal import Journal, read_events


def test_kills_for_memory_are_counted_in_the_words_of_the_kernel(tmp_path):
    (tmp_path / "memory.events").write_text("low 0\nhigh 7\nmax 3\noom 2\noom_kill 2\noom_group_kill 0\n")
    (tmp_path / "vmstat").write_text("nr_free_pages 1\noom_kill 5\npgfault 9\n")
    files = (tmp_path / "memory.events", tmp_path / "vmstat", tmp_path / "absent")
    assert watchdog.memory_kills(files) == 7


@pytest.fixture
def dying(made_up_run, monkeypatch):
    """A run whose training process is killed so many times, each for memory or not."""

    def make(times, for_memory):
        folder = made_up_run(state="training")
        folder.checkpoints.mkdir()
        (folder.checkpoints / "checkpoint-40").mkdir()
        (folder.checkpoints / "checkpoint-8").mkdir()
        Journal(folder.journal, "0").write("cut", step=0, tokens_per_micro_batch=2048)
        kills, starts = [0], []

        def run_child(kind, folder, observer):
            starts.append(kind)
            if len(starts) <= times:
                kills[0] += for_memory
                raise KilledBySystem("killed by SIGKILL")
            return 0

        monkeypatch.setattr(watchdog, "run_child", run_child)
        monkeypatch.setattr(watchdog, "memory_kills", lambda: kills[0])
        return folder, starts

    return make


def events_of(folder, kind):
    return [event for event in read_events(folder.journal) if event["event"] == kind]


def test_a_process_killed_for_memory_is_started_with_half_the_micro_batch_from_the_last_checkpoint(dying):
    folder, starts = dying(2, for_memory=True)
    assert watchdog.run_training(folder, None) == 0
    assert starts == ["train"] * 3
    cuts = [(e["step"], e["tokens_per_micro_batch"]) for e in events_of(folder, "cut") if e.get("finer")]
    assert cuts == [(40, 1024), (40, 512)]
    assert [event["number"] for event in events_of(folder, "restart")] == [1, 2]


def test_a_process_killed_by_somebody_is_started_with_the_same_cut(dying):
    folder, _starts = dying(1, for_memory=False)
    assert watchdog.run_training(folder, None) == 0
    assert [event for event in events_of(folder, "cut") if event.get("finer")] == []
    assert events_of(folder, "restart")[0]["because"] == "killed by a signal"


def test_it_ends_after_a_bounded_number_of_restarts(dying):
    folder, starts = dying(99, for_memory=True)
    with pytest.raises(KilledBySystem):
        watchdog.run_training(folder, None)
    assert len(starts) == 1 + watchdog.RESTARTS


def test_an_error_that_the_process_reported_is_no_reason_to_start_it_again(made_up_run, monkeypatch):
    def run_child(kind, folder, observer):
        raise GaveUp("not a number")

    monkeypatch.setattr(watchdog, "run_child", run_child)
    folder = made_up_run(state="training")
    with pytest.raises(GaveUp):
        watchdog.run_training(folder, None)
    assert events_of(folder, "restart") == []

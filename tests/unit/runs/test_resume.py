import json

from trainwright.records import Choice
from trainwright.runs.resume import changes, decides_result, facts_of, newest_checkpoint, unlike


def values(**changed):
    plain = {"learn.learning_rate": 1e-3, "run.precision": "fp32", "trainer.save_steps": 5, "data.train": "/a.csv"}
    names = {name.replace("__", "."): value for name, value in changed.items()}
    return {name: Choice(value, "recipe") for name, value in (plain | names).items()}


def test_what_decides_the_result_and_what_does_not():
    deciding = ["learn.seed", "task", "model", "data.max_length", "trainer.group_by_length"]
    free = ["run.precision", "name", "hub", "trainer.logging_steps", "trainer.save_steps", "trainer.report_to"]
    assert [decides_result(name) for name in deciding + free] == [True] * 5 + [False] * 6


def test_changes_name_both_values_and_those_that_decide_come_first():
    found = changes(values(), values(run__precision="bf16", learn__learning_rate=5e-4))
    assert [(one.name, one.before, one.now, one.learns) for one in found] == [
        ("learn.learning_rate", 1e-3, 5e-4, True),
        ("run.precision", "fp32", "bf16", False),
    ]
    assert str(found[0]) == "learn.learning_rate: 0.001 -> 0.0005"
    assert changes(values(), values()) == []


def test_a_checkpoint_is_compared_with_recipe_data_labels_and_versions(tmp_path, made_up_run):
    folder = made_up_run()
    facts = facts_of(values(), folder.prepared(), folder.machine())
    (tmp_path / "trainwright.json").write_text(json.dumps(facts))
    assert unlike(tmp_path, facts) == []
    moved = facts_of(values(data__train="/elsewhere/a.csv"), folder.prepared(), folder.machine())
    assert unlike(tmp_path, moved) == []  # the same rows in another place
    other = facts | {"data": facts["data"] | {"labels": ["b", "a"], "key": "other"}, "versions": {"torch": "9"}}
    found = {one.name: (one.now, one.learns) for one in unlike(tmp_path, other)}
    assert found["data.labels"] == (["b", "a"], True)
    assert found["data.key"] == ("other", True)
    assert found["versions.torch"] == ("9", False)


def test_a_checkpoint_that_says_nothing_of_itself_is_like_every_run(tmp_path, made_up_run):
    folder = made_up_run()
    facts = facts_of(values(), folder.prepared(), folder.machine())
    assert unlike(tmp_path, facts) == []
    (tmp_path / "trainwright.json").write_text('{"recipe": {')
    assert unlike(tmp_path, facts) == []


def test_the_newest_checkpoint_is_the_one_with_the_highest_step(tmp_path):
    assert newest_checkpoint(tmp_path) is None
    for name in ("checkpoint-9", "checkpoint-10", "checkpoint-x"):
        (tmp_path / name).mkdir()
    assert newest_checkpoint(tmp_path).name == "checkpoint-10"

import pytest

from trainwright.errors import ModelError
from trainwright.model.locate import comes_from_hub, locate, model_of, source_here
from trainwright.records import Choice, ModelFile, ModelSource
from trainwright.runs.folder import RunFolder


def test_a_folder_is_found_and_its_place_is_absolute(tiny_bert, monkeypatch):
    monkeypatch.chdir(tiny_bert.parent)
    source = source_here(tiny_bert.name)
    assert (source.folder, source.hub) == (str(tiny_bert), "local")
    assert locate(tiny_bert.name).max_length == 128


def test_a_folder_that_is_not_there_says_what_can_be_named(tmp_path):
    with pytest.raises(ModelError, match=r"no model folder .*/nothing.*google-bert/bert-base-chinese"):
        locate(str(tmp_path / "nothing"))


def test_what_is_here_is_not_asked_for_on_a_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert comes_from_hub("someone/model")
    assert not any(comes_from_hub(name) for name in ("mine", "./someone", "/some/one", "~/x", "packaged:x", "a/b/c"))


def test_a_run_reads_the_model_that_it_began_with(tiny_bert, tmp_path):
    run = RunFolder(tmp_path)
    run.write_resolved({"name": Choice("r", "recipe"), "model": Choice("someone/model", "recipe")})
    source = ModelSource(
        "someone/model", str(tiny_bert), "fetched", "hf", "https://x", "abc", [ModelFile("config.json", 3, None)]
    )
    run.write_model_source(source)
    assert run.model_source() == source
    assert (model_of(run).folder, model_of(run).because) == (tiny_bert, "fetched")


def test_a_run_of_before_this_was_written_down_reads_its_recipe(tiny_bert, tmp_path):
    run = RunFolder(tmp_path)
    values = {"name": "r", "model": str(tiny_bert), "data.train": "x.csv"}
    run.write_resolved({name: Choice(value, "recipe") for name, value in values.items()})
    assert model_of(run).folder == tiny_bert

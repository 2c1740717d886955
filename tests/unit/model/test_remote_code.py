"""A model whose own code has to run, and who may say so."""

import json
import shutil

import pytest
import torch

from trainwright.errors import ModelError
from trainwright.model import remote_code
from trainwright.model.build import Head, build_model
from trainwright.model.check import check_folder
from trainwright.model.hub_files import RemoteFile, needed

CODE = """
from transformers import BertConfig, BertForSequenceClassification

open("it-ran", "w").close()

class OwnConfig(BertConfig):
    model_type = "very_own"

class OwnForSequenceClassification(BertForSequenceClassification):
    config_class = OwnConfig
"""


@pytest.fixture
def folder(tiny_bert, tmp_path, monkeypatch):
    """A model that transformers does not know, with the code that makes it; a place where it would leave a trace."""
    folder = shutil.copytree(tiny_bert, tmp_path / "own")
    (folder / "modeling_own.py").write_text(CODE)
    config = json.loads((folder / "config.json").read_text())
    names = {"AutoConfig": "OwnConfig", "AutoModelForSequenceClassification": "OwnForSequenceClassification"}
    config |= {"model_type": "very_own", "auto_map": {auto: f"modeling_own.{own}" for auto, own in names.items()}}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    yield folder
    remote_code.allow(False)


def test_it_is_refused_before_anything_is_loaded_and_the_way_out_is_on_the_command_line(folder, tmp_path):
    with pytest.raises(ModelError, match="--trust-remote-code"):
        check_folder(folder, "")
    with pytest.raises(ModelError, match="cannot be used"):
        build_model(folder, Head.of_classes(["a", "b"]), None, 0)
    assert not (tmp_path / "it-ran").exists()


def test_it_runs_where_the_command_line_said_so(folder, tmp_path):
    remote_code.allow()
    check_folder(folder, "")
    model = build_model(folder, Head.of_classes(["a", "b"]), None, 0)
    assert type(model).__name__ == "OwnForSequenceClassification"
    assert model(torch.tensor([[2, 9, 3]])).logits.shape == (1, 2)
    assert (tmp_path / "it-ran").exists()


def test_code_is_fetched_only_where_it_may_run():
    files = [RemoteFile(name, 1) for name in ("model.safetensors", "modeling_own.py")]
    assert [file.name for file in needed(files, "a/b")] == ["model.safetensors"]
    remote_code.allow()
    try:
        assert {file.name for file in needed(files, "a/b")} == {"model.safetensors", "modeling_own.py"}
    finally:
        remote_code.allow(False)

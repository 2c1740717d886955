"""Whole runs of models that are not like others: no token for padding, code of their own, a head for other labels."""

import json
import shutil

import pytest
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import BertForSequenceClassification, GPT2Config, GPT2Model, PreTrainedTokenizerFast

from trainwright.runs.folder import all_runs

pytestmark = pytest.mark.e2e

CODE = """
from transformers import BertConfig, BertForSequenceClassification

class OwnConfig(BertConfig):
    model_type = "very_own"

class OwnForSequenceClassification(BertForSequenceClassification):
    config_class = OwnConfig
"""


def test_a_gpt2_without_a_token_for_padding_trains_and_predicts_in_batches(trainwright, recipe, review_rows, tmp_path):
    end = "<|endoftext|>"
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([text for text, _label in review_rows], vocab_size=400, special_tokens=[end])
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, eos_token=end, bos_token=end)
    made.save_pretrained(tmp_path / "gpt2")
    torch.manual_seed(0)
    size = {"vocab_size": tokenizer.get_vocab_size(), "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
    GPT2Model(GPT2Config(**size, bos_token_id=0, eos_token_id=0)).save_pretrained(tmp_path / "gpt2")
    done = trainwright("train", recipe(epochs=2), "--set", f"model={tmp_path / 'gpt2'}", "--runs", tmp_path / "runs")
    assert f"its end token {end} is used" in done.stdout
    run = all_runs(tmp_path / "runs")[0]
    assert json.loads((run.model / "config.json").read_text())["pad_token_id"] == 0
    assert json.loads((run.model / "tokenizer_config.json").read_text())["pad_token"] == end
    answer = trainwright("predict", run.path, "--text", "the kettle was superb", "--text", "a lamp")
    assert len(answer.stdout.split("  (")) == 3


def test_a_head_for_other_labels_is_said_in_the_view_and_kept_among_the_findings(
    trainwright, recipe, tiny_bert, tmp_path
):
    shutil.copytree(tiny_bert, tmp_path / "three")
    BertForSequenceClassification.from_pretrained(tiny_bert, num_labels=3).save_pretrained(tmp_path / "three")
    done = trainwright("train", recipe(epochs=1), "--set", f"model={tmp_path / 'three'}", "--runs", tmp_path / "runs")
    assert "knows 3 classes and the data has 2: a new head is drawn at random" in done.stdout
    run = all_runs(tmp_path / "runs")[0]
    assert "model.head-size" in [finding.id for finding in run.findings()]
    assert json.loads((run.model / "config.json").read_text())["id2label"] == {"0": "bad", "1": "good"}


def test_code_that_comes_with_a_model_runs_only_where_the_command_line_says_so(
    trainwright, recipe, tiny_bert, tmp_path, monkeypatch
):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))  # where transformers copies such code
    own = shutil.copytree(tiny_bert, tmp_path / "own")
    (own / "modeling_own.py").write_text(CODE)
    config = json.loads((own / "config.json").read_text())
    names = {"AutoConfig": "OwnConfig", "AutoModelForSequenceClassification": "OwnForSequenceClassification"}
    config |= {"model_type": "very_own", "auto_map": {auto: f"modeling_own.{name}" for auto, name in names.items()}}
    (own / "config.json").write_text(json.dumps(config))
    words = ("train", recipe(epochs=1), "--set", f"model={own}", "--runs", tmp_path / "runs")
    refused = trainwright(*words, expect=2)
    assert "--trust-remote-code" in refused.stderr
    trainwright(*words, "--trust-remote-code")
    run = all_runs(tmp_path / "runs")[-1]
    assert run.status().state == "finished"
    trainwright("predict", run.path, "--text", "a lamp", expect=2)
    trainwright("predict", run.path, "--text", "a lamp", "--trust-remote-code")

"""Model folders with something wrong, each made for real, and what is said of them before anything is trained."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertForSequenceClassification, BertModel

from trainwright.errors import ModelError
from trainwright.model import check
from trainwright.model.build import Head, build_model, load_tokenizer
from trainwright.model.check import check_folder, head_finding, padding_finding, position_limit, tokenizer_size

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.fixture
def folder(tiny_bert, tmp_path):
    """A whole model folder of the test's own."""
    return shutil.copytree(tiny_bert, tmp_path / "model")


def change(file, **values):
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_a_whole_folder_passes(folder):
    found = check_folder(folder, "a local folder")
    assert (found.folder, found.max_length, found.because) == (folder, 128, "a local folder")


def test_a_folder_without_config_weights_or_tokenizer_is_told_apart(tmp_path, folder):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ModelError, match=r"no config\.json"):
        check_folder(empty, "")
    (empty / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="no weights"):
        check_folder(empty, "")
    shutil.copy(folder / "model.safetensors", empty)
    with pytest.raises(ModelError, match="no tokenizer"):
        check_folder(empty, "")
    (empty / "config.json").write_text("{")
    with pytest.raises(ModelError, match="not readable JSON"):
        check_folder(empty, "")
    (empty / "config.json").write_text("[]")
    with pytest.raises(ModelError, match="holds no keys"):
        check_folder(empty, "")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_pointer_in_place_of_any_file_is_named(folder, name):
    (folder / name).write_bytes(POINTER)
    with pytest.raises(ModelError, match=rf"{name} is a Git LFS pointer.*git lfs pull"):
        check_folder(folder, "")


def test_weights_that_were_cut_off_are_seen_by_their_header(folder):
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1])
    with pytest.raises(ModelError, match="was cut off"):
        check_folder(folder, "")
    weights.write_bytes(b"<!DOCTYPE html>" + b" " * 3000)
    with pytest.raises(ModelError, match="not a safetensors file"):
        check_folder(folder, "")


def test_weights_in_parts_need_every_part(folder):
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"model-00001-of-00002.safetensors": names[:5], "model-00002-of-00002.safetensors": names[5:]}
    for part, held in parts.items():
        save_file({name: weights[name] for name in held}, folder / part, {"format": "pt"})
    where = {name: part for part, held in parts.items() for name in held}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    assert check.weight_shapes(folder) == {name: list(weight.shape) for name, weight in weights.items()}
    check_folder(folder, "")
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelError, match=r"lacks 1 of 2 weight files: model-00002-of-00002"):
        check_folder(folder, "")


@pytest.mark.parametrize("version", ["2.5.1", "2.5.1+cu124", "1.13.0"])
def test_weights_in_a_pickle_are_refused_with_an_old_torch_and_two_ways_out(folder, monkeypatch, version):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    monkeypatch.setattr(check.importlib.metadata, "version", lambda name: version)
    with pytest.raises(ModelError, match=r"pytorch_model\.bin.*torch 2\.5\.1|1\.13\.0") as refused:
        check_folder(folder, "")
    assert "Upgrade torch" in refused.value.way_out
    assert "model.safetensors" in refused.value.way_out


def test_weights_in_a_pickle_are_read_by_a_torch_that_can_do_so_safely(folder, tiny_bert):
    weights = load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    check_folder(folder, "")
    model = build_model(folder, Head.of_classes(["a", "b"]), None, 0)
    assert torch.equal(model.bert.embeddings.word_embeddings.weight, weights["embeddings.word_embeddings.weight"])


class Evil:
    """What a pickle can do: call anything."""

    def __reduce__(self):
        return (print, ("run",))


def test_a_pickle_that_holds_more_than_weights_is_never_run(folder, capsys):
    torch.save({"weight": Evil()}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="more than weights"):
        build_model(folder, Head.of_classes(["a", "b"]), None, 0)
    assert capsys.readouterr().out == ""


def test_a_tokenizer_larger_than_the_embedding_is_refused_with_both_sizes(folder):
    rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    tokenizer = load_tokenizer(folder)
    assert tokenizer_size(folder) == max(tokenizer.get_vocab().values()) + 1 == rows
    tokenizer.add_tokens([f"brandnew{number}" for number in range(9)])
    tokenizer.save_pretrained(folder)
    highest = max(tokenizer.get_vocab().values())
    assert highest >= rows
    with pytest.raises(ModelError, match=rf"ids up to {highest}, .* embedding has {rows} rows"):
        check_folder(folder, "")


def test_a_vocabulary_in_a_text_file_is_counted(folder, tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\nword\n")
    assert tokenizer_size(tmp_path) == 3
    (tmp_path / "added_tokens.json").write_text('{"more": 7}')
    assert tokenizer_size(tmp_path) == 8
    assert tokenizer_size(tmp_path / "nowhere") is None


def with_head(tiny_bert, place, labels):
    """The tiny BERT with a trained head."""
    shutil.copytree(tiny_bert, place)
    model = BertForSequenceClassification.from_pretrained(tiny_bert, num_labels=len(labels))
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {name: number for number, name in enumerate(labels)}
    model.save_pretrained(place)
    return check_folder(place, ""), model


def test_a_head_of_another_size_is_said_to_be_drawn_anew_and_is(tiny_bert, tmp_path):
    found, model = with_head(tiny_bert, tmp_path / "m", ["a", "b", "c"])
    said = head_finding(found, ["good", "bad"])
    assert said.id == "model.head-size"
    assert "3 classes and the data has 2" in said.message
    built = build_model(found.folder, Head.of_classes(["good", "bad"]), None, 0)
    assert built.classifier.weight.shape == (2, 32)
    assert torch.equal(built.bert.pooler.dense.weight, model.bert.pooler.dense.weight)


def test_a_head_of_the_same_size_is_kept_and_its_names_are_compared(tiny_bert, tmp_path):
    found, model = with_head(tiny_bert, tmp_path / "m", ["good", "bad"])
    assert head_finding(found, ["good", "bad"]) is None
    order = head_finding(found, ["bad", "good"])
    assert (order.id, order.change) == ("model.head-order", {"data.labels": ["good", "bad"]})
    assert head_finding(found, ["up", "down"]).id == "model.head-names"
    built = build_model(found.folder, Head.of_classes(["up", "down"]), None, 0)
    assert torch.equal(built.classifier.weight, model.classifier.weight)


def test_a_model_without_a_head_or_without_names_has_nothing_said_of_it(tiny_bert, tmp_path):
    assert head_finding(check_folder(tiny_bert, ""), ["a", "b", "c"]) is None
    found, _model = with_head(tiny_bert, tmp_path / "m", ["LABEL_0", "LABEL_1"])
    assert head_finding(found, ["a", "b"]) is None


def test_a_missing_token_for_padding_is_said_and_the_end_token_takes_its_place_in_both(folder):
    assert padding_finding(check_folder(folder, "")) is None
    change(folder / "config.json", pad_token_id=None)
    assert padding_finding(check_folder(folder, "")) is None  # an old encoder
    change(folder / "config.json", eos_token_id=3)
    own = padding_finding(check_folder(folder, ""))
    assert (own.id, own.evidence) == ("model.pad-token", {"pad_token": "[PAD]"})
    assert "its tokenizer's [PAD]" in own.message
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "[SEP]"}'
    )
    end = padding_finding(check_folder(folder, ""))
    assert "its end token [SEP]" in end.message
    separator = load_tokenizer(folder).convert_tokens_to_ids("[SEP]")
    assert load_tokenizer(folder).pad_token_id == separator
    assert build_model(folder, Head.of_classes(["a", "b"]), None, 0).config.pad_token_id == separator
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 64}')
    assert padding_finding(check_folder(folder, "")).evidence == {"pad_token": "3"}  # GPT-2 names its tokens nowhere


def test_a_model_whose_code_comes_with_it_is_refused_and_one_that_transformers_knows_is_not(folder):
    change(folder / "config.json", auto_map={"AutoModel": "modeling_x.XModel"})
    check_folder(folder, "")  # a BERT needs no code of others
    change(folder / "config.json", model_type="very_own")
    with pytest.raises(ModelError, match=r"its own kind \(very_own\).*Such code is not run unless you say so"):
        check_folder(folder, "")


def test_code_beside_a_known_model_is_not_run(folder):
    (folder / "modeling_x.py").write_text("raise SystemExit('run')")
    change(
        folder / "config.json",
        auto_map=dict.fromkeys(("AutoConfig", "AutoModel", "AutoModelForSequenceClassification"), "modeling_x.X"),
    )
    assert type(build_model(folder, Head.of_classes(["a", "b"]), None, 0)).__name__ == "BertForSequenceClassification"


def test_an_architecture_that_cannot_classify_text_is_refused(folder):
    change(folder / "config.json", model_type="vit", architectures=["ViTModel"])
    with pytest.raises(ModelError, match="cannot be used as a model for SequenceClassification"):
        build_model(folder, Head.of_classes(["a", "b"]), None, 0)


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 0}, 513),
        ({"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "gpt2", "n_positions": 1024}, 1024),
        ({"model_type": "t5"}, None),
        ({"model_type": "deberta-v2", "max_position_embeddings": 512}, 512),
    ],
)
def test_the_position_table_limits_the_length_and_hides_slots_in_roberta(config, limit):
    assert position_limit(config) == limit


def test_saving_twice_changes_nothing_that_is_checked(folder, tmp_path):
    BertModel.from_pretrained(folder).save_pretrained(tmp_path / "again")
    assert check.weight_shapes(tmp_path / "again") == check.weight_shapes(folder)

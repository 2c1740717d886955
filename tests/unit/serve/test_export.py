import shutil

import numpy as np
import onnxruntime
import pytest
import torch
import transformers

from trainwright.errors import CheckFailed, MachineError, UserError
from trainwright.model.build import load_tokenizer
from trainwright.runs.folder import RunFolder
from trainwright.serve import export

SMALL = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "num_labels": 3,
    "max_position_embeddings": 128, "pad_token_id": 0,
}  # fmt: skip
RELATIVE = SMALL | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 0}
SPECIAL = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
FAMILIES = {
    "Bert": SMALL,
    "Roberta": SMALL,
    "Electra": SMALL | {"embedding_size": 8},
    "Albert": SMALL | {"embedding_size": 8},
    "DebertaV2": RELATIVE | {"position_buckets": 16, "share_att_key": True, "norm_rel_ebd": "layer_norm"},
    "ModernBert": SMALL | SPECIAL | {"global_attn_every_n_layers": 2, "local_attention": 16},
    "DistilBert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "num_labels": 3, "pad_token_id": 0},
}


@pytest.fixture(params=sorted(FAMILIES))
def run(request, tmp_path, tiny_bert):
    tokenizer = load_tokenizer(tiny_bert)
    torch.manual_seed(0)
    config = getattr(transformers, f"{request.param}Config")(vocab_size=len(tokenizer), **FAMILIES[request.param])
    folder = RunFolder(tmp_path / "run")
    model = getattr(transformers, f"{request.param}ForSequenceClassification")(config)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(3)  # or rows hardly differ, and a wrong mask would not be seen
    model.save_pretrained(folder.model)
    tokenizer.save_pretrained(folder.model)
    folder.set_status(state="finished")
    return folder


def test_onnx_computes_what_torch_computes_for_other_shapes_than_the_traced_one(run, tmp_path):
    check = export.export_onnx(run, tmp_path / "onnx")
    assert check.largest_difference < 1e-4
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "onnx")
    session = onnxruntime.InferenceSession(tmp_path / "onnx" / "model.onnx")
    texts = ["the lamp", "a kettle that is simply awful and awful", "x", "so it was", "my phone came today", "y", "z"]
    batch = tokenizer(texts, padding=True, return_tensors="np")
    names = [one.name for one in session.get_inputs()]
    logits = session.run(["logits"], {name: batch[name].astype(np.int64) for name in names})[0]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(run.model).eval()
    with torch.no_grad():
        expected = model(**{name: torch.tensor(batch[name]) for name in names}).logits.numpy()
    assert np.abs(logits - expected).max() < 1e-4


@pytest.fixture
def bert_run(tmp_path, tiny_bert):
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(tiny_bert, folder.model)
    return folder


def test_a_model_that_computes_something_else_is_not_handed_over(bert_run, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "compare", lambda predictor, file: 0.3)
    with pytest.raises(CheckFailed, match=r"3\.0e-01"):
        export.export_onnx(bert_run, tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


def test_without_onnx_the_install_line_is_named(bert_run, tmp_path, monkeypatch):
    monkeypatch.setattr(export.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MachineError, match=r"pip install 'trainwright\[onnx\]'"):
        export.export_onnx(bert_run, tmp_path / "onnx")


def test_a_hugging_face_folder_is_copied_whole_and_never_over_another(bert_run, tmp_path):
    export.export_hf(bert_run, tmp_path / "copy")
    assert transformers.AutoModel.from_pretrained(tmp_path / "copy").config.hidden_size == 32
    with pytest.raises(UserError, match="exists"):
        export.export_hf(bert_run, tmp_path / "copy")


def test_a_run_without_a_model_says_so(tmp_path):
    with pytest.raises(UserError, match="no model yet"):
        export.export_hf(RunFolder(tmp_path / "run"), tmp_path / "copy")

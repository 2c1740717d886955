import csv
import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from trainwright.errors import DataError, GaveUp, ModelError, UserError
from trainwright.model.build import Head, build_model, load_tokenizer
from trainwright.records import Choice
from trainwright.runs.folder import RunFolder
from trainwright.serve import predict
from trainwright.serve.predict import Predictor, predict_file, predict_texts

LABELS = ["=bad", "fine", "好"]
TEXTS = ["the lamp was superb", "", "a kettle that is simply awful and awful and awful", "x", "my phone 好", "the"]


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_bert):
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    model = build_model(tiny_bert, Head.of_classes(LABELS), None, seed=1)
    model.save_pretrained(folder.model)
    load_tokenizer(tiny_bert).save_pretrained(folder.model)
    folder.set_status(state="finished")
    folder.write_resolved({"data.text": Choice("review", "recipe")})
    return folder


def one_by_one(folder, texts):
    """Plain transformers, one text at a time, without padding."""
    tokenizer = AutoTokenizer.from_pretrained(folder.model)
    model = AutoModelForSequenceClassification.from_pretrained(folder.model).eval()
    with torch.no_grad():
        logits = [model(**tokenizer(text, return_tensors="pt", truncation=True)).logits[0] for text in texts]
    return torch.softmax(torch.stack(logits), dim=-1).numpy()


def test_probabilities_are_those_of_plain_transformers_in_the_callers_order(run):
    found = Predictor(run.model).predict(TEXTS)
    seen = np.array([[one.probabilities[label] for label in LABELS] for one in found])
    assert np.allclose(seen, one_by_one(run, TEXTS), atol=1e-6)
    assert [one.label for one in found] == [LABELS[place] for place in seen.argmax(-1)]


def test_texts_are_read_a_chunk_at_a_time_so_memory_is_flat(run):
    read = []

    def texts():
        for number in range(3000):
            read.append(number)
            yield "the lamp"

    stream = Predictor(run.model).stream(texts())
    next(stream)
    assert len(read) == 1024


def test_a_text_beyond_the_models_length_is_cut(run):
    assert len(Predictor(run.model, max_length=8).predict(["the lamp was superb " * 500])) == 1


def test_a_folder_without_a_model_says_how_to_get_one(tmp_path):
    with pytest.raises(ModelError, match="resume"):
        Predictor(tmp_path)


def test_a_folder_without_a_tokenizer_is_refused_and_not_read_with_an_empty_one(run, tmp_path):
    for name in ("config.json", "model.safetensors"):
        shutil.copy(run.model / name, tmp_path)
    with pytest.raises(ModelError, match="no tokenizer"):
        Predictor(tmp_path)


def test_a_csv_comes_back_row_for_row_with_predictions_behind(run, tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "CHUNK", 4)  # six rows take two
    rows = [["id", "review", "note"], *([f"00{n}", text, 'a "b",\nc'] for n, text in enumerate(TEXTS))]
    source = tmp_path / "new.csv"
    with open(source, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    written = predict_file(run, source)
    assert written.path == tmp_path / "new.predictions.csv"
    assert (written.rows, written.empty) == (6, 1)
    with open(written.path, newline="", encoding="utf-8") as file:
        read = list(csv.reader(file))
    assert [row[:3] for row in read] == rows
    assert read[0][3:] == ["predicted", "confidence", "probability_=bad", "probability_fine", "probability_好"]
    expected = one_by_one(run, TEXTS)
    assert np.allclose(np.array([row[5:] for row in read[1:]], dtype=float), expected, atol=1e-5)


def test_jsonl_keeps_its_keys_and_gets_a_probability_object(run, tmp_path):
    source = tmp_path / "new.jsonl"
    rows = [{"review": text, "more": {"n": number}} for number, text in enumerate(TEXTS)]
    source.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    read = [json.loads(line) for line in predict_file(run, source).path.read_text().splitlines()]
    assert [{"review": row["review"], "more": row["more"]} for row in read] == rows
    assert all(list(row["probability"]) == LABELS for row in read)
    found = np.array([list(row["probability"].values()) for row in read])
    assert np.allclose(found, one_by_one(run, TEXTS), atol=1e-5)
    assert all(row["confidence"] == max(row["probability"].values()) for row in read)


def test_an_existing_file_is_never_overwritten_unless_asked(run, tmp_path):
    source = tmp_path / "new.tsv"
    source.write_text("review\tb\nthe lamp\t1\n")
    predict_file(run, source)
    with pytest.raises(UserError, match="--force"):
        predict_file(run, source)
    predict_file(run, source, force=True)


def test_the_source_itself_is_never_replaced(run, tmp_path):
    source = tmp_path / "new.csv"
    source.write_text("review\nthe lamp\n")
    for target in (source, tmp_path / "link.csv", tmp_path):
        if not target.exists():
            target.symlink_to(source)
        with pytest.raises(UserError, match="left as it is"):
            predict_file(run, source, target, force=True)
    assert source.read_text() == "review\nthe lamp\n"


def test_folders_of_the_target_are_made_and_progress_counts_up_to_all_rows(run, tmp_path):
    source = tmp_path / "new.csv"
    source.write_text("review,b\n" + "the lamp,1\n" * 3 + ",1\n  ,1\n")
    told = []
    written = predict_file(run, source, tmp_path / "a" / "b.csv", progress=lambda done, rows: told.append((done, rows)))
    assert told == [(number, 5) for number in range(1, 6)]
    assert written.empty == 2
    assert (tmp_path / "a" / "b.csv").read_text().count("\n") == 6


def test_a_broken_row_is_found_before_the_model_is_loaded(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.set_status(state="stopped")
    (tmp_path / "new.csv").write_text("text,b\nthe lamp,1\nonly\n")
    with pytest.raises(DataError, match="lines 3"):
        predict_file(folder, tmp_path / "new.csv")


def test_a_file_that_cannot_be_finished_leaves_nothing_behind(run, tmp_path, monkeypatch):
    (tmp_path / "new.csv").write_text("review\nthe lamp\n")
    monkeypatch.setattr(Predictor, "stream", lambda self, texts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        predict_file(run, tmp_path / "new.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_half_a_character_is_predicted_like_a_question_mark(run):
    assert Predictor(run.model).predict(["the \ud800 lamp"]) == Predictor(run.model).predict(["the ? lamp"])


def test_single_texts_get_label_confidence_and_every_probability(run):
    (answer,) = predict_texts(run, ["the lamp was superb"])
    assert answer["predicted"] in LABELS
    assert answer["confidence"] == answer["probability"][answer["predicted"]]
    assert set(answer["probability"]) == set(LABELS)


class SmallMemory:
    """Room for so many tokens in a batch; tells how often more were tried."""

    def __init__(self, predictor, tokens):
        self.predictor, self.tokens, self.raised = predictor, tokens, 0
        predictor.model.register_forward_pre_hook(self.before, with_kwargs=True)

    def before(self, module, words, named):
        if named["input_ids"].numel() > self.tokens:
            self.raised += 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")


def test_a_batch_that_does_not_fit_is_halved_until_it_does_and_gives_the_same(run, monkeypatch):
    monkeypatch.setattr(predict, "CHUNK", 12)
    texts = TEXTS * 8  # chunks of 12 and more
    predictor = Predictor(run.model)
    longest = max(len(predictor.tokenizer(text)["input_ids"]) for text in texts)
    memory = SmallMemory(predictor, longest)  # the longest text alone just fits
    found = predictor.predict(texts)
    seen = np.array([[one.probabilities[label] for label in LABELS] for one in found])
    assert np.allclose(seen, one_by_one(run, texts), atol=1e-6)
    first = memory.raised
    assert first > 0
    predictor.predict(texts[:12])
    assert memory.raised == first  # it has learned what fits


def test_a_text_that_does_not_fit_alone_is_said_with_what_would(run):
    predictor = Predictor(run.model)
    SmallMemory(predictor, 8)
    predictor.predict(["the lamp"])  # 4 tokens
    with pytest.raises(GaveUp, match=r"A text of 12 tokens.*Texts of 4 tokens did fit"):
        predictor.predict(["the lamp " * 5])

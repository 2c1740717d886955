import csv
import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from trainwright.errors import DataError, ModelError, UserError
from trainwright.model.build import build_classifier, load_tokenizer
from trainwright.records import Choice
from trainwright.runs.folder import RunFolder
from trainwright.serve.predict import Predictor, predict_file, predict_texts

LABELS = ["=bad", "fine", "好"]
TEXTS = ["the lamp was superb", "", "a kettle that is simply awful and awful and awful", "x", "my phone 好", "the"]


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_bert):
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    model = build_classifier(tiny_bert, LABELS, None, seed=1)
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


def test_a_csv_comes_back_row_for_row_with_every_column_as_it_was(run, tmp_path):
    rows = [["id", "review", "note"], *([f"00{n}", text, 'a "b",\nc'] for n, text in enumerate(TEXTS))]
    source = tmp_path / "new.csv"
    with open(source, "w", newline="", encoding="utf-8-sig") as file:
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


def test_a_label_that_would_start_a_formula_is_guarded_and_the_users_cells_are_not(run, tmp_path, monkeypatch):
    monkeypatch.setattr(Predictor, "predict", None)
    source = tmp_path / "new.csv"
    source.write_text("review\n=1+1\n")
    text = predict_file(run, source).path.read_text()
    assert "=1+1," in text
    assert ",=bad" not in text


def test_jsonl_keeps_its_keys_and_gets_a_probability_object(run, tmp_path):
    source = tmp_path / "new.jsonl"
    rows = [{"review": text, "more": {"n": number}} for number, text in enumerate(TEXTS)]
    source.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    read = [json.loads(line) for line in predict_file(run, source).path.read_text().splitlines()]
    assert [{"review": row["review"], "more": row["more"]} for row in read] == rows
    assert all(sum(row["probability"].values()) == pytest.approx(1, abs=1e-5) for row in read)
    assert all(row["confidence"] == max(row["probability"].values()) for row in read)


def test_an_existing_file_is_never_overwritten_unless_asked(run, tmp_path):
    source = tmp_path / "new.tsv"
    source.write_text("review\tb\nthe lamp\t1\n")
    predict_file(run, source)
    with pytest.raises(UserError, match="--force"):
        predict_file(run, source)
    predict_file(run, source, force=True)


BROKEN = {
    "a column that is not there": ("new.csv", "text\nthe lamp\n", "no column review.*text"),
    "a column that is taken": ("new.csv", "review,predicted\nthe lamp,x\n", "already has.*predicted"),
    "a row with too few cells": ("new.csv", "review,b\nthe lamp,1\nonly\n", "line 3.*1 cells"),
    "a line that is no JSON": ("new.jsonl", '{"review": "a"}\n{"review": \n', "line 2"),
    "a line without the key": ("new.jsonl", '{"text": "a"}\n', "no key review"),
    "an empty file": ("new.csv", "", "is empty"),
    "another format": ("new.xlsx", "x", "none of CSV"),
}


@pytest.mark.parametrize("case", sorted(BROKEN))
def test_a_broken_file_is_named_with_line_and_leaves_nothing_behind(run, tmp_path, case):
    name, text, expected = BROKEN[case]
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=expected):
        predict_file(run, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_single_texts_get_label_confidence_and_every_probability(run):
    (answer,) = predict_texts(run, ["the lamp was superb"])
    assert answer["predicted"] in LABELS
    assert answer["confidence"] == answer["probability"][answer["predicted"]]
    assert set(answer["probability"]) == set(LABELS)

"""The scripts that users copy, run as they stand."""

import subprocess
import sys

import nbformat
from nbclient import NotebookClient
from transformers import AutoModelForSequenceClassification

from trainwright.runs.folder import RunFolder


def test_the_guides_script_runs_with_one_import_line_changed(repo, tmp_path, tiny_bert, reviews_csv):
    script = repo / "examples" / "guide_script.py"
    words = ["--model", tiny_bert, "--data", reviews_csv, "--steps", "6", "--output", tmp_path / "run"]
    done = subprocess.run(
        [sys.executable, str(script), *map(str, words)], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "eval_accuracy" in done.stdout
    folder = RunFolder(tmp_path / "run")
    assert (folder.status().state, folder.status().step) == ("finished", 6)
    model = AutoModelForSequenceClassification.from_pretrained(folder.model)
    assert model.config.num_labels == 2


def test_the_only_line_that_differs_from_transformers_is_the_import(repo):
    text = (repo / "examples" / "guide_script.py").read_text()
    assert "from trainwright import Trainer  # instead of: from transformers import Trainer" in text
    for argument in ("per_device_train_batch_size=16", "gradient_accumulation_steps=4", "fp16=True",
                     "logging_steps=100", "save_steps=500"):  # fmt: skip
        assert argument in text


def test_the_notebook_runs(repo, tmp_path, tiny_bert, reviews_csv, monkeypatch):
    monkeypatch.setenv("GUIDE_STEPS", "4")
    monkeypatch.setenv("GUIDE_MODEL", str(tiny_bert))
    monkeypatch.setenv("GUIDE_DATA", str(reviews_csv))
    notebook = nbformat.read(repo / "examples" / "guide_notebook.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert "eval_loss" in str(notebook.cells[-1].outputs)


def test_a_small_bert_is_made_from_a_vocabulary(repo, tmp_path, tiny_bert):
    script = repo / "examples" / "make_small_bert.py"
    words = [tiny_bert / "vocab.txt", tmp_path / "small", "--layers", "2", "--hidden", "32", "--heads", "2"]
    run = [sys.executable, str(script), *map(str, words)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "small", num_labels=3)
    assert (model.config.num_hidden_layers, model.config.hidden_size) == (2, 32)
    again = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert again.returncode == 2
    assert "exists" in again.stderr

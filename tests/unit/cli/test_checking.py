"""data check and data prepare as a user runs them."""

import json
import subprocess
import sys

import pytest

from trainwright.cli.app import run

TELL = """
import json, sys
from trainwright.cli.app import run
code = run(sys.argv[1:])
print(json.dumps([code, [name for name in ("torch", "transformers", "datasets") if name in sys.modules]]))
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Writes a recipe over a table of rows: ``recipe(rows)``; the cache is one of this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write(rows, **data):
        table = tmp_path / "rows.jsonl"
        lines = (json.dumps({"text": text, "label": label}) for text, label in rows)
        table.write_text("\n".join(lines), encoding="utf-8")
        path = tmp_path / "recipe.yaml"
        given = {"train": str(table), "validation": "none"} | data
        path.write_text(json.dumps({"model": "packaged:all-minilm-l6-v2", "data": given}), encoding="utf-8")
        return path

    return write


ROWS = [(f"a good film {n}", "pos") for n in range(60)] + [(f"a bad film {n}", "neg") for n in range(60)]


def test_check_prints_the_audit_and_ends_with_0_where_nothing_refuses_a_run(recipe, capsys):
    assert run(["data", "check", str(recipe([*ROWS, ROWS[0]]))]) == 0
    shown = capsys.readouterr().out
    assert "rows 121" in " ".join(shown.split())
    assert "repeated in the split 1 (0.8%)" in " ".join(shown.split())
    assert "tokens, longest (line)" in shown
    assert "train: 1 of 121 rows (0.8%) repeat the text of another row" in shown


def test_check_speaks_chinese(recipe, capsys):
    assert run(["--lang", "zh", "data", "check", str(recipe([*ROWS, ROWS[0]])), "--rows"]) == 0
    assert "121 行里有 1 行" in capsys.readouterr().out


@pytest.mark.parametrize("options", [[], ["--rows"]])
def test_an_error_of_the_audit_ends_with_1_and_the_audit_is_shown_all_the_same(recipe, capsys, options):
    path = recipe([*ROWS, ("", "pos")], empty_rows="refuse")
    assert run(["data", "check", str(path), *options]) == 1
    shown = capsys.readouterr()
    assert "without text 1 (0.8%)" in " ".join(shown.out.split())
    assert "rows without text: 1 (lines 121)" in shown.err


def test_a_file_that_is_not_there_is_the_users_mistake(recipe, tmp_path, capsys):
    path = recipe(ROWS)
    (tmp_path / "rows.jsonl").unlink()
    assert run(["data", "check", str(path), "--rows"]) == 2
    assert "There is no file" in capsys.readouterr().err


def test_a_model_that_is_not_here_leaves_the_rows_to_be_looked_at(recipe, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no-models"))
    path = recipe(ROWS)
    assert run(["data", "check", str(path)]) == 0
    given = json.loads(path.read_text()) | {"model": "google-bert/bert-base-chinese"}
    path.write_text(json.dumps(given))
    capsys.readouterr()
    assert run(["data", "check", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "google-bert/bert-base-chinese is not on this machine" in shown
    assert "tokens, longest" not in shown


def test_prepare_fills_the_cache_which_is_then_found_without_a_heavy_import(recipe, tmp_path):
    path = str(recipe(ROWS))
    first, second = (
        subprocess.run(
            [sys.executable, "-c", TELL, "data", "prepare", path], capture_output=True, text=True, check=True
        )
        for _time in range(2)
    )
    assert "Prepared: train 120 rows" in first.stdout
    assert "Found in the cache: train 120 rows" in second.stdout
    assert json.loads(second.stdout.splitlines()[-1]) == [0, []]
    (folder,) = (tmp_path / "cache" / "trainwright" / "prepared").iterdir()
    assert str(folder) in second.stdout


def test_rows_are_audited_without_a_heavy_import_and_leave_nothing_behind(recipe, tmp_path):
    words = [sys.executable, "-c", TELL, "data", "check", str(recipe(ROWS)), "--rows"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [0, []]
    assert list((tmp_path / "cache" / "trainwright").iterdir()) == []

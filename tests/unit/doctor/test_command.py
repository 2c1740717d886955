"""The command: what it asks of the machine for a recipe, its exit code, its JSON, its table, and --fix."""

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))

from fakehub import COMMIT, MODEL, fake_hub  # noqa: F401
from trainwright.cli import doctoring
from trainwright.cli.app import run
from trainwright.doctor.records import Check, Fix, Packages
from trainwright.messages.text import use_language
from trainwright.terminal.doctor import doctor_table

RECIPE = "model: {model}\ndata: {{train: {train}, validation: 10%}}\n"


@pytest.fixture
def recipe(tmp_path, reviews_csv):
    def write(model, train=reviews_csv, more=""):
        path = tmp_path / "recipe.yaml"
        path.write_text(RECIPE.format(model=model, train=train) + more)
        return path

    return write


def parameters_by_hand():
    """Of the tiny BERT: 4 weights and biases of attention, two of each feed-forward layer and norm, in 2 layers."""
    from conftest import tiny_vocabulary

    words, width, inner = len(tiny_vocabulary()), 32, 64
    embeddings = (words + 128 + 2) * width + 2 * width
    layer = 4 * (width * width + width) + (width * inner + inner) + (inner * width + width) + 2 * 2 * width
    return embeddings + 2 * layer + width * width + width


def test_a_recipe_tells_what_it_needs(recipe, tiny_bert, reviews_csv, tmp_path):
    asked = doctoring.needs_of(recipe(tiny_bert), [], tmp_path / "runs")
    assert (asked.from_hub, asked.missing, asked.model_problem) == (False, [], ("", ""))
    assert asked.data_bytes == reviews_csv.stat().st_size
    assert asked.runs_root == tmp_path / "runs"
    sys.path.insert(0, str(Path(__file__).parents[2]))
    assert asked.parameters == parameters_by_hand()


def test_what_is_missing_is_told_and_nothing_is_raised(recipe, tmp_path):
    (tmp_path / "empty").mkdir()
    asked = doctoring.needs_of(recipe(tmp_path / "empty", "gone.csv"), [], None)
    assert asked.missing == [str(tmp_path / "gone.csv")]
    assert "config.json" in asked.model_problem[0]
    assert asked.model_problem[1]


def test_a_model_of_a_hub_is_asked_for_there_with_its_size(recipe, fake_hub, monkeypatch):  # noqa: F811
    monkeypatch.setenv("HF_ENDPOINT", fake_hub.endpoint)
    fake_hub.files = {"config.json": b"{}", "model.safetensors": b"\x08\0\0\0\0\0\0\0" + b"w" * 500}
    asked = doctoring.needs_of(recipe(MODEL, more="hub: hf\n"), [], None)
    assert asked.from_hub
    (hub,) = doctoring.hubs_for(asked)
    answer = hub.ask()
    assert (answer.hub, answer.given, answer.parameters) == ("hf", True, None)  # the hub lists no number
    body = json.dumps({"sha": COMMIT, "safetensors": {"parameters": {"F32": 7}, "total": 7}}).encode()
    real = fake_hub.answer
    monkeypatch.setattr(
        fake_hub,
        "answer",
        lambda name, path, query: (200, {}, body) if "/api/models/" in path else real(name, path, query),
    )
    assert hub.ask().parameters == 7


def test_a_local_model_has_no_hub_to_be_asked_for_it(recipe, tiny_bert):
    asked = doctoring.needs_of(recipe(tiny_bert), [], None)
    assert [(hub.name, hub.ask) for hub in doctoring.hubs_for(asked)] == [
        ("hf", None), ("hf-mirror", None), ("modelscope", None),
    ]  # fmt: skip


# -- the whole command ------------------------------------------------------------------------------------------------


def test_a_machine_that_fits_ends_with_0_and_every_check_as_json(recipe, tiny_bert, tmp_path, capsys):
    code = run(["doctor", str(recipe(tiny_bert)), "--json", "--runs", str(tmp_path / "runs")])
    document = json.loads(capsys.readouterr().out)
    assert (code, document["format"], document["fit"]) == (0, 1, True)
    checks = {check["id"]: check for check in document["checks"]}
    assert {name.split(".")[0] for name in checks} == {
        "versions", "hardware", "disks", "network", "platform", "libraries", "recipe",
    }  # fmt: skip
    assert checks["versions.torch-import"]["verdict"] == "ok"
    assert checks["network.hub"]["verdict"] == "not available"  # HF_HUB_OFFLINE
    assert not (tmp_path / "runs").exists()  # looking leaves nothing behind


def test_a_recipe_that_does_not_fit_ends_with_1(recipe, tiny_bert, capsys):
    assert run(["doctor", str(recipe(tiny_bert, "gone.csv")), "--json"]) == 1
    blockers = [one for one in json.loads(capsys.readouterr().out)["checks"] if one["verdict"] == "blocker"]
    assert [one["id"] for one in blockers] == ["recipe.files"]


def test_a_recipe_that_cannot_be_read_is_the_users_mistake(tmp_path, capsys):
    assert run(["doctor", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err


def test_a_missing_package_is_found_by_the_command(recipe, tiny_bert, monkeypatch, capsys):
    from trainwright.doctor import packages

    real = packages.see_packages()
    versions = {name: version for name, version in real.versions.items() if name != "accelerate"}
    monkeypatch.setattr(packages, "see_packages", lambda: Packages(versions, real.requires, real.extras, real.python))
    assert run(["doctor", "--json"]) == 1
    fixes = [
        one["fix"]["command"] for one in json.loads(capsys.readouterr().out)["checks"] if one["verdict"] == "blocker"
    ]
    assert fixes == [f"{sys.executable} -m pip install 'accelerate>=1.10'"]


def test_no_credential_is_printed(monkeypatch, capsys):
    monkeypatch.setenv("HTTPS_PROXY", "http://user:sesame@127.0.0.1:1")
    monkeypatch.setenv("HF_TOKEN", "hf_sesame")
    monkeypatch.setenv("HF_ENDPOINT", "http://me:sesame@127.0.0.1:1")
    monkeypatch.setenv("AutodlAutoPanelToken", "sesame")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    for words in (["doctor", "--json"], ["doctor"]):
        assert run(words) == 0
        shown = capsys.readouterr()
        assert "127.0.0.1:1" in shown.out
        assert "sesame" not in shown.out + shown.err


# -- what is shown ----------------------------------------------------------------------------------------------------

CHECKS = [
    Check("network.port", "note", "A port is taken."),
    Check("versions.python", "ok", "Python fits."),
    Check("versions.torch", "blocker", "torch is missing.", fix=Fix("Install it.", by_hand="pip install torch")),
    Check("disks.room", "warning", "Little room.", fix=Fix("Move.", variables={"A": "1"})),
]


def shown(checks):
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(doctor_table(checks, 1.25))
    return console.file.getvalue()


def test_what_blocks_comes_first_and_each_finding_has_its_line_to_paste():
    text = shown(CHECKS)
    order = [
        text.index(word) for word in ("torch is missing", "pip install torch", "Python fits", "Little room", "A port")
    ]
    assert order == sorted(order)
    assert "✗ torch is missing." in text
    assert text.splitlines()[-1] == "Not fit to train. ✗ 1  ! 1  · 1  ✓ 1  (1.2s)"


@pytest.mark.parametrize(
    ("verdicts", "line"), [(["ok", "note"], "Fit to train."), (["ok", "warning"], "Fit to train, with warnings.")]
)
def test_the_last_line_says_whether_it_fits(verdicts, line):
    assert shown([Check(f"disks.{verdict}", verdict, "x") for verdict in verdicts]).splitlines()[-1].startswith(line)


def test_fixes_are_applied_only_where_the_user_agrees(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    console = Console(file=io.StringIO())
    asked = []
    doctoring.mend(CHECKS, console, lambda text: bool(asked.append(text)))
    assert len(asked) == 1
    assert "export A=1" in asked[0]
    assert not (tmp_path / ".bashrc").exists()
    doctoring.mend(CHECKS, console, lambda text: True)
    assert "export A=1" in (tmp_path / ".bashrc").read_text()
    assert "restart" in console.file.getvalue()


def test_every_area_has_a_name_in_both_languages():
    for language in ("en", "zh"):
        use_language(language)
        assert shown([Check(f"{area}.x", "ok", "x") for area in doctoring_areas()])


def doctoring_areas():
    from trainwright.doctor.records import AREAS

    return AREAS

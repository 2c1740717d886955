import sys

import environment
import pytest
from environment import constraint_lines, installation_problem, read_cards, visible
from torch_choice import Build, Card

CARDS = [Card("NVIDIA A100-SXM4-80GB", (8, 0)), Card("NVIDIA GeForce RTX 5090", (12, 0))]


def test_cards_are_read_from_the_drivers_answer():
    assert read_cards("8.0, NVIDIA A100-SXM4-80GB\n12.0, NVIDIA GeForce RTX 5090\n") == CARDS


@pytest.mark.parametrize("answer", ["", "No devices were found\n", "[N/A], NVIDIA A100\n"])
def test_an_answer_without_a_capability_gives_no_card(answer):
    assert read_cards(answer) == []


@pytest.mark.parametrize(
    ("setting", "left"),
    [(None, CARDS), ("", []), ("-1", []), ("1", CARDS[1:]), ("1,0", CARDS[::-1]), ("GPU-8f2a", CARDS), ("7", [])],
)
def test_hidden_cards_do_not_count(setting, left):
    assert visible(CARDS, setting) == left


PINNED = "# pinned\nnumpy==2.4.6\nsympy==1.14.0\ntorch==2.13.0\ntorchmetrics==1.9.0\ntyping_extensions==4.16.0\n"


def test_the_constraints_are_taken_as_they_are_for_the_pinned_torch():
    assert constraint_lines(PINNED, None) == PINNED


def test_a_shared_torch_and_what_it_brought_keep_their_versions():
    shared = Build("2.6.0+cu124", "CUDA 12.4", ("sm_90",), ("sympy", "typing-extensions"))
    lines = constraint_lines(PINNED, shared).splitlines()
    assert lines == ["# pinned", "numpy==2.4.6", "torchmetrics==1.9.0", "torch==2.6.0+cu124"]


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A folder with the two files that pin an installation, and a ``.venv`` made from them."""
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").write_text("")
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("first")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "STAMP", venv / "stamp.json")
    monkeypatch.setattr(environment, "VENV_PYTHON", venv / "bin" / "python")
    return tmp_path


def test_a_second_call_finds_everything_ready(made):
    assert not environment.is_ready("dev")
    environment.write_stamp("dev", shares_torch=False)
    assert environment.is_ready("dev")
    assert environment.is_ready("quickstart")
    assert environment.set_up(["dev"]) == 0


def test_the_quickstart_is_not_enough_for_the_tests(made):
    environment.write_stamp("quickstart", shares_torch=False)
    assert environment.is_ready("quickstart")
    assert not environment.is_ready("dev")


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt", ".venv/bin/python", "folder", "stamp"])
def test_a_change_is_noticed(made, monkeypatch, changed):
    environment.write_stamp("dev", shares_torch=False)
    if changed == "folder":
        moved = made.rename(made.with_name("moved"))
        monkeypatch.setattr(environment, "ROOT", moved)
        monkeypatch.setattr(environment, "STAMP", moved / ".venv" / "stamp.json")
        monkeypatch.setattr(environment, "VENV_PYTHON", moved / ".venv" / "bin" / "python")
    elif changed == "stamp":
        (made / ".venv" / "stamp.json").write_text("{torn")
    elif changed.endswith("python"):
        (made / changed).unlink()
    else:
        (made / changed).write_text("second")
    assert not environment.is_ready("dev")


def fake_torch(folder, body):
    package = folder / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(body)
    info = folder / "torch-2.7.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.7.1\n"
        "Requires-Dist: sympy>=1.13.3\nRequires-Dist: nvidia-nccl-cu12==2.26.2; platform_system == 'Linux'\n"
    )


def test_a_torch_is_asked_for_its_build_and_the_cards_it_sees(tmp_path, monkeypatch):
    fake_torch(
        tmp_path,
        "from types import SimpleNamespace as Names\n"
        "__version__ = '2.7.1+cu128'\n"
        "version = Names(cuda='12.8')\n"
        "_C = Names()\n"
        "cuda = Names(get_arch_list=lambda: ['sm_90', 'sm_120'], device_count=lambda: 1, is_available=lambda: True,\n"
        "    get_device_name=lambda i: 'NVIDIA H20', get_device_capability=lambda i: (9, 0))\n",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    build, cards = environment.probe(sys.executable)
    assert build == Build("2.7.1+cu128", "CUDA 12.8", ["sm_90", "sm_120"], ["sympy", "nvidia-nccl-cu12"])
    assert cards == [Card("NVIDIA H20", (9, 0))]


def test_a_torch_that_does_not_import_counts_as_none(tmp_path, monkeypatch):
    fake_torch(tmp_path, "raise OSError('libcudart.so.12: cannot open shared object file')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert environment.probe(sys.executable) == (None, [])


def test_a_build_that_does_not_cover_the_card_ends_before_anything_is_made(made, monkeypatch, capsys):
    monkeypatch.setattr(environment, "probe", lambda _python: (Build("2.6.0+cu124", "CUDA 12.4", ["sm_90"]), []))
    monkeypatch.setattr(environment, "cards_of_driver", lambda: CARDS[1:])
    monkeypatch.setattr(environment, "make_venv", lambda _shared: pytest.fail("nothing may be made"))
    monkeypatch.setattr(environment, "leave_venv", lambda _arguments: None)
    assert environment.set_up(["dev"]) == 2
    assert "RTX 5090" in capsys.readouterr().err


def test_a_failed_installation_shows_the_installers_last_words_and_what_to_try(tmp_path, monkeypatch):
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda _path: type("Usage", (), {"free": 2**30})())
    text = installation_problem([f"line {number}" for number in range(30)] + ["ERROR: No space left on device"])
    assert "ERROR: No space left on device" in text
    assert "line 3\n" not in text
    assert "1.0 GiB are free" in text
    assert "pip config set" in text


def test_the_output_and_exit_code_of_the_installer_are_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "VENV", tmp_path)
    monkeypatch.setattr(environment, "PROGRESS_SECONDS", 0.1)
    script = "import time; print('Collecting torch', flush=True); time.sleep(0.5); print('done'); raise SystemExit(3)"
    lines, exit_code = environment.run_showing_progress([sys.executable, "-c", script])
    assert (lines, exit_code) == (["Collecting torch", "done"], 3)
    assert "s  Collecting torch" in capsys.readouterr().out


@pytest.mark.parametrize("shares", [True, False])
def test_a_fresh_torch_that_is_asked_for_replaces_a_shared_one(made, shares):
    environment.write_stamp("dev", shares_torch=shares)
    assert environment.is_ready("dev")
    assert environment.is_ready("dev", fresh_torch=True) is not shares

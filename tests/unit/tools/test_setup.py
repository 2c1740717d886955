import subprocess
import sys
from pathlib import Path

import pytest
import setup

SCRIPT = Path(setup.__file__)


@pytest.mark.parametrize(
    ("version", "verdict"),
    [((3, 10), False), ((3, 11), True), ((3, 14), True), ((3, 15), False), ((2, 7), False)],
)
def test_python_3_11_to_3_14_are_accepted(version, verdict):
    assert setup.is_accepted(version) is verdict


def test_another_python_is_found_by_its_name_newest_first(tmp_path, monkeypatch):
    for name in ("python3.10", "python3.11", "python3.12"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert setup.find_python() == str(tmp_path / "python3.12")


def test_no_accepted_python_is_one_sentence_with_the_version_seen_and_the_way_out():
    text = setup.complaint((3, 8, 10), "/usr/bin/python3")
    for part in ("3.11 to 3.14", "3.8.10", "/usr/bin/python3", "make quickstart PYTHON="):
        assert part in text
    assert "\n" not in text


def test_an_old_python_hands_over_to_an_accepted_one(tmp_path, monkeypatch, capsys):
    called = []
    monkeypatch.setattr(setup.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(setup, "find_python", lambda: "/usr/bin/python3.12")
    monkeypatch.setattr(setup.os, "execv", lambda program, arguments: called.append((program, arguments)))
    monkeypatch.setenv("TRAINWRIGHT_SETUP_PYTHON", "")
    setup.main(["dev"])
    assert called == [("/usr/bin/python3.12", ["/usr/bin/python3.12", str(SCRIPT), "dev"])]


def test_two_pythons_do_not_call_each_other_without_end(monkeypatch, capsys):
    monkeypatch.setattr(setup.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(setup, "find_python", lambda: "/usr/bin/python3.12")
    monkeypatch.setattr(setup.os, "execv", lambda *_: pytest.fail("called again"))
    monkeypatch.setenv("TRAINWRIGHT_SETUP_PYTHON", "/usr/bin/python3.12")
    assert setup.main(["dev"]) == 2
    assert "3.9.2" in capsys.readouterr().err


def test_its_options_are_explained():
    shown = subprocess.run([sys.executable, str(SCRIPT), "--help"], capture_output=True, text=True, check=True)
    assert "--fresh-torch" in shown.stdout

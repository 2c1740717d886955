"""Fixes, really applied: in a home of the test's own."""

import shlex
import subprocess

import pytest

from trainwright.doctor.fix import apply_fix, safe_fixes
from trainwright.doctor.records import Check, Fix
from trainwright.errors import CheckFailed


def test_the_line_to_paste_and_the_fix_that_is_applied_do_the_same(tmp_path):
    """A path with a space and a quote, through a real shell, and by --fix: the next shell has it both times."""
    folder = tmp_path / "it's here"
    fix = Fix("", variables={"HF_HOME": str(folder)}, folders=(str(folder),))
    pasted, applied = tmp_path / "pasted", tmp_path / "applied"
    for home in (pasted, applied):
        home.mkdir()
        (home / ".bashrc").write_text("export KEPT=1")  # without a line's end, as some editors leave it
    environment = {"PATH": "/usr/bin:/bin"}
    subprocess.run(["bash", "-c", fix.command], check=True, env=environment | {"HOME": str(pasted)})
    assert folder.is_dir()
    folder.rmdir()
    apply_fix(fix, applied)
    assert folder.is_dir()
    for home in (pasted, applied):
        line = f". {shlex.quote(str(home / '.bashrc'))}; echo $HF_HOME $KEPT"
        done = subprocess.run(["bash", "-c", line], check=True, capture_output=True, text=True, env=environment)
        assert done.stdout == f"{folder} 1\n"


def test_applied_twice_it_stands_once_and_nothing_else_is_changed(tmp_path):
    (tmp_path / ".bashrc").write_text("# mine\n")
    for _time in range(2):
        apply_fix(Fix("", variables={"A": "1"}), tmp_path)
    assert (tmp_path / ".bashrc").read_text() == "# mine\nexport A=1  # set by trainwright doctor\n"


def test_a_package_that_pip_cannot_install_is_an_error_with_the_line(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(CheckFailed, match=r"code 1.*pip install no-such-package-of-ours"):
        apply_fix(Fix("", install=("no-such-package-of-ours",)))


def test_only_what_adds_is_applied_each_once_and_only_where_something_is_wrong():
    adds, by_hand = Fix("", install=("a",)), Fix("", by_hand="kill 1")
    checks = [
        Check("a.a", "blocker", "", fix=adds), Check("a.b", "warning", "", fix=adds),
        Check("a.c", "blocker", "", fix=by_hand), Check("a.d", "note", "", fix=Fix("", folders=("x",))),
        Check("a.e", "blocker", ""),
    ]  # fmt: skip
    assert [check.id for check in safe_fixes(checks)] == ["a.a"]

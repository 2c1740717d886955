"""With TRAINWRIGHT_CI=1 nothing may be left out: a skip fails the run, unless for want of a GPU or the shared data."""

import os
import shutil
import subprocess
import sys

import pytest

ALLOWED = """
import pytest
def test_card(): pytest.skip("no GPU on this machine")
def test_data(): pytest.skip("shared data not here")
def test_done(): pass
"""
FORBIDDEN = (
    ALLOWED
    + """
@pytest.mark.skipif(True, reason="no browser")
def test_page(): pass
"""
)
WHOLE_FILE = "import pytest\npytest.skip('no tmux', allow_module_level=True)\n"


@pytest.fixture
def run(repo, tmp_path, monkeypatch):
    """Run a small test file under the repository's conftest; returns exit code and output."""
    shutil.copy(repo / "tests" / "conftest.py", tmp_path / "conftest.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q -ra\n")

    def run_tests(text, strict):
        (tmp_path / "test_it.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"]
        variables = os.environ | ({"TRAINWRIGHT_CI": "1"} if strict else {})
        shown = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        return shown.returncode, shown.stdout

    return run_tests


def test_a_missing_gpu_or_shared_data_is_allowed(run):
    exit_code, shown = run(ALLOWED, strict=True)
    assert exit_code == 0
    assert "1 passed, 2 skipped" in shown


def test_any_other_skip_fails_the_run_and_is_named(run):
    exit_code, shown = run(FORBIDDEN, strict=True)
    assert exit_code == 1
    assert "test_page: Skipped: no browser" in shown
    assert "test_card: " not in shown


def test_a_file_that_skips_itself_is_seen_too(run):
    exit_code, shown = run(WHOLE_FILE + ALLOWED, strict=True)
    assert exit_code != 0
    assert "no tmux" in shown


def test_on_a_plain_machine_skips_are_only_shown(run):
    assert run(FORBIDDEN, strict=False)[0] == 0

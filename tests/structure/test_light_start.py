"""Whoever asks for help or a version waits for no heavy library."""

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "datasets", "matplotlib", "pyarrow")
TELL = "import json, sys; print(); print(json.dumps([name for name in sys.argv.pop().split() if name in sys.modules]))"


def loaded_by(statement: str) -> list[str]:
    """Which heavy libraries are loaded after a statement has run in a fresh Python."""
    command = [sys.executable, "-c", f"{statement}\n{TELL}", " ".join(HEAVY)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(shown.splitlines()[-1])


COMMAND_LINE = """
import sys
names = sys.argv.pop()
sys.argv[1:] = {arguments!r}
from trainwright.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.argv.append(names)
"""


def test_importing_the_package_is_light():
    assert loaded_by("import trainwright; dir(trainwright)") == []


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"], ["predict", "--help"]])
def test_help_and_version_are_light(arguments):
    assert loaded_by(COMMAND_LINE.format(arguments=arguments)) == []


def test_a_heavy_library_would_be_seen():
    assert loaded_by("import pyarrow") == ["pyarrow"]

"""Every command that the documents tell a reader to paste is one that the command line understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

REPO = Path(__file__).resolve().parents[2]
DOCUMENTS = [REPO / "README.md", REPO / "README.zh-CN.md", *sorted((REPO / "docs").glob("*.md"))]
SHELL = {"", "bash", "sh", "shell", "console"}
PROGRAMS = ("trainwright", ".venv/bin/trainwright")


def commands_in(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and words after ``trainwright`` of every such command in the shell blocks of a document."""
    language: str | None = None
    lines = enumerate(text.splitlines(), 1)
    for number, line in lines:
        fence = re.match(r"\s*(?:```|~~~)\s*(\S*)", line)
        if fence:
            language = fence[1].lower() if language is None else None
        elif language in SHELL:
            while line.endswith("\\"):
                line = line[:-1] + next(lines, (0, ""))[1]
            yield from ((number, words) for words in commands_of_line(line))


def commands_of_line(line: str) -> Iterator[list[str]]:
    """The Trainwright commands of one line of shell; comments, prompts, pipes and redirections are set aside."""
    lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    command: list[str] = []
    for word in [*lexer, ";"]:
        if not set(word) <= set("|&;<>"):
            command.append(word)
            continue
        while command and re.fullmatch(r"\w+=.*", command[0]):
            command.pop(0)
        if command and command[0] in PROGRAMS:
            yield command[1:]
        command = []


def check(command: Any, words: list[str], name: str = "trainwright") -> None:
    """Parse words as the command line would, without running anything.

    Raises:
        Exception: The command line's own error: an unknown command or option, a missing argument.
    """
    if words in (["--help"], ["--version"]):
        return
    with command.make_context(name, list(words), resilient_parsing=False) as context:
        if not hasattr(command, "commands"):
            return
        rest = command.make_parser(context).parse_args(list(words))[1]
        inner_name, inner, inner_words = command.resolve_command(context, rest)
        check(inner, inner_words, inner_name)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documented_commands_are_understood(document):
    from trainwright.cli.app import app

    tree = get_command(app)
    wrong = []
    for number, words in commands_in(document.read_text(encoding="utf-8")):
        try:
            check(tree, words)
        except Exception as error:
            wrong.append(f"{document.name}:{number} trainwright {shlex.join(words)}: {error}")
    assert wrong == []


def test_commands_are_collected_from_shell_blocks_only():
    text = """Run `trainwright inline`.
```bash
$ trainwright train a.yaml --set learn.seed=1   # a comment
cd x && LANG=zh .venv/bin/trainwright show last > out.txt
pip install trainwright
trainwright predict last \\
  --text "it's good"
```
```python
trainwright = 1
```
```
trainwright runs
```
"""
    assert list(commands_in(text)) == [
        (3, ["train", "a.yaml", "--set", "learn.seed=1"]),
        (4, ["show", "last"]),
        (6, ["predict", "last", "--text", "it's good"]),
        (13, ["runs"]),
    ]


@pytest.mark.parametrize("line", ["trian recipe.yaml", "train recipe.yaml --sett a=1", "train", "train a.yaml b.yaml"])
def test_a_wrong_command_is_seen(line):
    from trainwright.cli.app import app

    tree = get_command(app)
    with pytest.raises(Exception, match=r"(?i)no such|missing|unexpected"):
        check(tree, line.split())


RIGHT = ["train recipe.yaml --set a=1 --no-rehearse", "--lang zh show last", "runs", "--help", "train --help"]


@pytest.mark.parametrize("line", RIGHT)
def test_a_right_command_passes(line):
    from trainwright.cli.app import app

    check(get_command(app), line.split())

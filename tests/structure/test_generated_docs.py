"""The generated pages of docs/ are what the code says now."""

import importlib.util

import pytest


@pytest.fixture(scope="module")
def write_docs(repo):
    spec = importlib.util.spec_from_file_location("write_docs", repo / "tools" / "write_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_current(repo, write_docs):
    stale = [
        name
        for name, text in write_docs.pages().items()
        if not (repo / "docs" / name).exists() or (repo / "docs" / name).read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: make docs"


def test_every_command_and_option_has_a_word_of_help(write_docs):
    lines = write_docs.commands_page().splitlines()
    assert [line for line in lines if line.endswith("|  |")] == []
    headings = [number for number, line in enumerate(lines) if line.startswith("## ")]
    assert [lines[number] for number in headings if not lines[number + 2].strip()] == []

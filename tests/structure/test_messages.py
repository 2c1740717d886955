"""Every text for people has a Chinese translation with the same placeholders, and the compiled catalogue is current."""

from __future__ import annotations

import gettext
import re
from pathlib import Path
from string import Formatter

import pytest
from babel.messages import extract, frontend, pofile
from babel.messages.catalog import Catalog

REPO = Path(__file__).resolve().parents[2]
MESSAGES = REPO / "src" / "trainwright" / "messages"


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Every text in the code, with one place where it stands; found as ``make messages`` finds them."""
    with open(REPO / "tools" / "babel.cfg", encoding="utf-8") as file:
        methods, options = frontend.parse_mapping_cfg(file)
    found = extract.extract_from_dir(
        REPO / "src" / "trainwright", methods, options, keywords=extract.DEFAULT_KEYWORDS | {"_": None}
    )
    return {text: f"{name}:{line}" for name, line, text, _comments, _context in found if text}


@pytest.fixture(scope="module")
def catalogue() -> Catalog:
    with open(MESSAGES / "zh_CN.po", "rb") as file:
        return pofile.read_po(file, locale="zh_CN")


def placeholders(text: str) -> list[str]:
    """Names and formats of what is filled in, sorted: ``{rows:,}`` is ``rows:,``."""
    return sorted(f"{name}:{form}" for _before, name, form, _how in Formatter().parse(text) if name is not None)


def test_texts_are_found(texts):
    assert len(texts) > 20
    assert "There is no run '{run}' in {root}." in texts


def test_every_text_is_in_chinese(texts, catalogue):
    missing = [f"{place} {text!r}" for text, place in texts.items() if not translation(catalogue, text)]
    assert missing == []


def translation(catalogue: Catalog, text: str) -> str:
    message = catalogue.get(text)
    return str(message.string) if message and message.string and not message.fuzzy else ""


def test_the_catalogue_has_nothing_that_the_code_no_longer_says(texts, catalogue):
    assert [message.id for message in catalogue if message.id and message.id not in texts] == []


def test_placeholders_are_the_same(catalogue):
    wrong = [
        message.id
        for message in catalogue
        if message.id and message.string and placeholders(str(message.id)) != placeholders(str(message.string))
    ]
    assert wrong == []


def test_translations_are_chinese(catalogue):
    """Texts of names and commands only may stay as they are; a sentence may not."""
    sentences = [message for message in catalogue if message.id and len(str(message.id).split()) > 3]
    assert [m.id for m in sentences if m.string and not re.search(r"[\u4e00-\u9fff]", str(m.string))] == []


def test_the_compiled_catalogue_is_made_from_this_one(catalogue):
    with open(MESSAGES / "zh_CN.mo", "rb") as file:
        compiled = gettext.GNUTranslations(file)
    written = {str(m.id): str(m.string) for m in catalogue if m.id and m.string and not m.fuzzy}
    in_use = {text: said for text, said in vars(compiled)["_catalog"].items() if text}
    assert in_use == written


def test_placeholders_are_read_with_their_formats():
    assert placeholders("{rows:,} rows of {file}, {{kept}}") == ["file:", "rows:,"]

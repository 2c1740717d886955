"""The two READMEs say the same: as many headings, the same code, the same numbers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def texts() -> tuple[str, str]:
    english, chinese = (REPO / name for name in ("README.md", "README.zh-CN.md"))
    return english.read_text(encoding="utf-8"), chinese.read_text(encoding="utf-8")


def headings(text: str) -> list[int]:
    """The level of each heading, in order."""
    return [len(marks) for marks in re.findall(r"^(#+) \S", FENCED.sub("", text), re.MULTILINE)]


def code_blocks(text: str) -> list[tuple[str, str]]:
    """Language and content of each block; comments may be translated, so they are left out."""
    return [
        (language, "\n".join(re.sub(r"(^|\s+)#.*$", "", line).rstrip() for line in body.splitlines()))
        for language, body in FENCED.findall(text)
    ]


def numbers(text: str) -> Counter[str]:
    """Every number of the prose, however often it comes."""
    return Counter(re.findall(r"\d+(?:[.,]\d+)*", FENCED.sub("", text)))


def test_the_same_headings(texts):
    english, chinese = map(headings, texts)
    assert english == chinese
    assert len(english) > 1


def test_the_same_code(texts):
    english, chinese = map(code_blocks, texts)
    assert english == chinese
    assert english


def test_the_same_numbers(texts):
    english, chinese = map(numbers, texts)
    assert english - chinese == chinese - english == Counter()


def test_differences_would_be_seen():
    one = "# A\n\n10 rows, 3.5 CNY\n\n```bash\nrun 1  # first\n```\n"
    other = "# 甲\n\n10 行，3.6 元\n\n```bash\nrun 1  # 先\n```\n"
    assert headings(one) == headings(other) == [1]
    assert code_blocks(one) == code_blocks(other) == [("bash", "run 1")]
    assert numbers(one) - numbers(other) == Counter({"3.5": 1})

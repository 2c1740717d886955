"""Guess the language of texts from their script and their commonest words; simple, so that it can be explained."""

from __future__ import annotations

import re
from collections.abc import Iterable

from trainwright.messages.text import _
from trainwright.units import format_share

CHINESE_SHARE = 0.3  # of all letters: Chinese text with many Latin names and numbers still passes this
KANA_SHARE = 0.05  # Japanese mixes its own syllables among the characters; Chinese has none
PLAIN_SHARE = 0.98  # of all letters without accents: English loan words stay above, other Latin scripts below
ENGLISH_WORDS = "the and of to is it that was for with this you my are not have what how be can at from by"
ENGLISH_SHARE = 0.08  # of all words; in English about every fifth is among them, even in commands every tenth

_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_KANA = re.compile("[\u3040-\u30ff]")
_LETTER = re.compile(r"[^\W\d_]")
_PLAIN = re.compile("[A-Za-z]")
_WORD = re.compile(r"[^\W\d_]+")


def guess_language(texts: Iterable[str]) -> tuple[str, str]:
    """The language of some texts, and why.

    Returns:
        ``zh``, ``en`` or ``other``; and the reason in words.
    """
    text = "\n".join(texts)
    letters = max(1, len(_LETTER.findall(text)))
    chinese, kana = len(_IDEOGRAPH.findall(text)), len(_KANA.findall(text))
    if chinese / letters >= CHINESE_SHARE and kana / letters < KANA_SHARE:
        return "zh", _("{share} of the letters are Chinese characters").format(share=format_share(chinese / letters, 0))
    plain = len(_PLAIN.findall(text)) / letters
    words = _WORD.findall(text.lower())
    english = set(ENGLISH_WORDS.split())
    common = sum(word in english for word in words) / max(1, len(words))
    if plain >= PLAIN_SHARE and common >= ENGLISH_SHARE:
        reason = _("{share} of the words are common English ones, such as 'the' and 'of'")
        return "en", reason.format(share=format_share(common, 0))
    reason = _("{plain} of the letters are plain Latin ones and {common} of the words common English ones")
    return "other", reason.format(plain=format_share(plain, 0), common=format_share(common, 0))

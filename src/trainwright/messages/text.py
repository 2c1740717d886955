"""Texts for people, in English and Chinese, through gettext.

The English text in the code is the key; ``zh_CN.po`` beside this file holds the Chinese and ``zh_CN.mo`` is made
from it by ``make messages``. Identifiers, journals and logs stay English.
"""

from __future__ import annotations

import gettext
import locale
import os
from pathlib import Path

LANGUAGES = ("en", "zh")
_FOLDER = Path(__file__).parent
_english = gettext.NullTranslations()
_loaded: dict[str, gettext.NullTranslations] = {"en": _english}
_current = "en"


def language_of_environment() -> str:
    """The user's language by locale: zh where LC_ALL, LC_MESSAGES or LANG says Chinese, else en."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name)
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "zh" if (locale.getlocale()[0] or "").lower().startswith(("zh", "chinese")) else "en"


def use_language(language: str) -> None:
    """Use ``en`` or ``zh`` for every text from now on.

    Raises:
        ValueError: Another language is asked for.
    """
    global _current
    if language not in LANGUAGES:
        raise ValueError(f"language '{language}' is not one of {', '.join(LANGUAGES)}")
    if language not in _loaded:
        with open(_FOLDER / "zh_CN.mo", "rb") as file:
            _loaded[language] = gettext.GNUTranslations(file)
    _current = language


def current_language() -> str:
    """The language in use: ``en`` or ``zh``."""
    return _current


def _(text: str) -> str:
    """The text in the language in use; the English text itself where no translation exists.

    Placeholders are filled in afterwards, so that the key stays the same: ``_("{n} rows").format(n=3)``.
    """
    return _loaded[_current].gettext(text)

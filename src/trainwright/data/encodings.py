"""Which encoding a file is in: found by decoding all of it, so that neither its size nor the order of rows matters.

Files in a multi-byte encoding of Chinese are told apart by what they would say: each candidate decodes the whole file,
and the characters that come out are counted. Memory is one count per character, whatever the size of the file.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from trainwright.data.cells import Noticed
from trainwright.data.textfile import CHUNK, first_bad_byte, open_bytes, undecodable
from trainwright.errors import DataError
from trainwright.messages.text import _
from trainwright.units import format_share

MARKS = (  # the longer first: the mark of UTF-32 begins like that of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Where each standard puts its punctuation and the characters in common use (level 1): 3,755 of GB 2312, 5,401 of Big5.
# They make up more than 95% of usual text; what a wrong encoding gives is spread over all 13,000 and more.
USUAL_ROWS = {"gb18030": (*range(0xA1, 0xA4), *range(0xB0, 0xD8)), "big5": tuple(range(0xA1, 0xC7))}
USUAL = 0.7  # least share of the characters from there
# The commonest characters of Chinese, in both ways of writing; a third of any longer text. Korean in EUC-KR would fit
# GB 18030 by its bytes, but does not use them.
COMMON = (
    "的一是不了在人有我他这這个個们們中来來上大为為和国國地到以说說时時要就出会會可也你对對生能而子"
    "那得于於着著下自之年很好没沒"
)
COMMON_LEAST, COMMON_FROM = 0.05, 200  # least share of these, in files with at least so many characters
# Japanese in EUC-JP is half kana, which GB 18030 has at the same place and Chinese does not use; in Big5 the
# same bytes are common characters.
KANA, KANA_MOST = np.arange(0x3041, 0x30FF), 0.4
# In text of two bytes a character most bytes above 127 stand next to another; accented letters mostly stand alone.
ALONE = 0.5
LEAST_ACCENTS = 3  # fewer may as well be damage in a file of plain ASCII
UNDEFINED_1252 = (0x81, 0x8D, 0x8F, 0x90, 0x9D)


@dataclass(frozen=True)
class Encoding:
    """The encoding of a file.

    Attributes:
        name: Name of Python's codec.
        because: Why it was taken.
        doubtful: Nothing in the file speaks against it, but others would fit as well.
    """

    name: str
    because: str
    doubtful: bool = False


def find_encoding(path: Path, asked: str = "auto") -> Encoding:
    """The encoding of a text file.

    Args:
        path: The file; may be compressed.
        asked: The recipe's data.encoding.

    Raises:
        DataError: None fits, or the file is UTF-8 but for some bytes; with line and byte.
    """
    if asked != "auto":
        return Encoding(asked, _("the recipe says so"))
    with open_bytes(path) as file:
        start = file.read(4)
    marked = next((name for mark, name in MARKS if start.startswith(mark)), None)
    if marked:
        if first_bad_byte(path, marked):
            raise undecodable(path, marked)
        return Encoding(marked, _("it begins with the byte-order mark of {encoding}").format(encoding=marked.upper()))
    if first_bad_byte(path, "utf-8") is None:
        return Encoding("utf-8", _("all its bytes are UTF-8"))
    return _guess(path)


def noticed_encoding(encoding: Encoding) -> Noticed:
    """What a reader of text has noticed before it begins."""
    return Noticed(encoding=encoding.name, encoding_because=encoding.because, encoding_doubtful=encoding.doubtful)


def _guess(path: Path) -> Encoding:
    seen = _look_through(path)
    if seen.utf8_characters > seen.utf8_bad:
        raise undecodable(path, "utf-8")
    alone = 1 - seen.together / max(1, seen.high)
    chinese = alone < ALONE and all(one.share(KANA) < KANA_MOST for one in seen.candidates if one.possible)
    fitting = [one for one in seen.candidates if chinese and one.fits()]
    if fitting:
        best = max(fitting, key=lambda one: one.usual() + one.common())
        because = _("all its bytes are {encoding}, and {share} of the characters are in common use")
        return Encoding(best.name, because.format(encoding=best.name.upper(), share=format_share(best.usual())))
    if alone >= ALONE and seen.high >= LEAST_ACCENTS and not seen.bytes[list(UNDEFINED_1252)].any():
        name = "cp1252" if seen.bytes[0x80:0xA0].any() else "latin-1"
        because = _("it is not UTF-8, and its {count} bytes above 127 stand alone, as letters with accents do")
        return Encoding(name, because.format(count=seen.high), doubtful=True)
    raise _unknown(path)


def _unknown(path: Path) -> DataError:
    wrong = undecodable(path, "utf-8")
    text = _("No encoding that is known by its bytes fits either: UTF-16 with a mark, GB 18030, Big5, Latin-1.")
    way_out = _("Name it: data.encoding: latin-1 (or euc-kr, shift_jis, utf-16-le ...), or save the file as UTF-8.")
    return DataError(f"{wrong.message} {text}", way_out)


# -- one look through the whole file --------------------------------------------------------------------------------


@dataclass
class _Candidate:
    """What a file says in one encoding: how often each character occurs in it."""

    name: str
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0x10000, np.int64))
    possible: bool = True

    def __post_init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self.name)()

    def feed(self, chunk: bytes) -> None:
        if self.possible:
            try:
                points = _code_points(self._decoder.decode(chunk, final=not chunk))
            except UnicodeDecodeError:
                self.possible = False
                return
            self.counts += np.bincount(points[(points >= 0x80) & (points < 0x10000)], minlength=0x10000)

    def fits(self) -> bool:
        enough = self.common() >= COMMON_LEAST or self.counts.sum() < COMMON_FROM
        return self.possible and self.usual() >= USUAL and enough

    def usual(self) -> float:
        return self.share(_usual(self.name))

    def common(self) -> float:
        return self.share(np.array([ord(character) for character in COMMON]))

    def share(self, points: np.ndarray) -> float:
        """The share of some code points among all characters beyond ASCII."""
        return float(self.counts[points].sum() / max(1, self.counts.sum()))


@dataclass
class _Seen:
    """Counts over a whole file.

    Attributes:
        bytes: How often each byte occurs.
        high: Bytes above 127.
        together: Those of them beside another one.
        utf8_characters: Characters beyond ASCII that are whole in UTF-8.
        utf8_bad: Bytes that are not.
        candidates: What it says in the encodings of Chinese.
    """

    bytes: np.ndarray
    high: int
    together: int
    utf8_characters: int
    utf8_bad: int
    candidates: list[_Candidate]


def _look_through(path: Path) -> _Seen:
    seen = _Seen(np.zeros(256, np.int64), 0, 0, 0, 0, [_Candidate(name) for name in USUAL_ROWS])
    utf8 = codecs.getincrementaldecoder("utf-8")(errors="surrogateescape")
    before = np.zeros(1, np.bool_)  # whether the last two bytes are above 127, for the neighbours of the next one
    with open_bytes(path) as file:
        while True:
            chunk = file.read(CHUNK)
            for candidate in seen.candidates:
                candidate.feed(chunk)
            points = _code_points(utf8.decode(chunk, final=not chunk))
            bad = int(((points >= 0xDC80) & (points <= 0xDCFF)).sum())
            seen.utf8_bad += bad
            seen.utf8_characters += int((points >= 0x80).sum()) - bad
            found = np.frombuffer(chunk, np.uint8)
            seen.bytes += np.bincount(found, minlength=256)
            high = np.concatenate([before, found >= 0x80, np.zeros(0 if chunk else 1, np.bool_)])
            beside = high[1:-1] & (high[:-2] | high[2:])
            seen.high, seen.together = int(seen.bytes[0x80:].sum()), seen.together + int(beside.sum())
            before = high[-2:]
            if not chunk:
                return seen


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


@cache
def _usual(name: str) -> np.ndarray:
    """Code points of the characters in common use, by the rows of the standard's table."""
    trails = [*range(0x40, 0x7F), *range(0xA1, 0xFF)] if name == "big5" else [*range(0xA1, 0xFF)]
    codec = "big5" if name == "big5" else "gb2312"
    pairs = (bytes([lead, trail]) for lead in USUAL_ROWS[name] for trail in trails)
    characters = (pair.decode(codec, errors="ignore") for pair in pairs)
    return np.unique([ord(character) for character in characters if character])

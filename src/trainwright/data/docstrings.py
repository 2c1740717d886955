"""Real text that is already on the machine: the docstrings of the libraries that Trainwright itself depends on.

The task is to tell which library a docstring comes from. Sources are read with ``ast``; no library is imported. Names
of libraries and their usual abbreviations are masked, or the task would be to read them off.
"""

from __future__ import annotations

import ast
import csv
import importlib.util
import logging
import os
import random
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

from trainwright.errors import DataError
from trainwright.messages.text import _

# Importable names: all are dependencies of the plain install, each with hundreds of docstrings of its own style.
LIBRARIES = (
    "torch",
    "transformers",
    "numpy",
    "pandas",
    "matplotlib",
    "datasets",
    "huggingface_hub",
    "torchmetrics",
    "rich",
    "accelerate",
)
FEWEST_LIBRARIES = 4
SHORTEST = 40  # characters; shorter ones ("Return the name.") could come from anywhere
LONGEST = 4000  # characters kept of a docstring: the rest is beyond any model's length
MOST_FILES = 250  # of a library, sampled: torch alone has thousands
MASK = "thislib"
LEFT_OUT = {"tests", "testing", "_vendor"}  # folders: their texts are about others, or by others
# What gives a library away without its name: import abbreviations and close relatives' names.
GIVE_AWAYS = (
    "pytorch", "huggingface", "hugging face", "hf", "hub", "ndarray", "np", "pd", "plt", "mpl", "tf", "sklearn",
    "scipy", "lightning", "dataframe", "dataframes", "textualize", "pyplot", "axes3d", "tensorflow", "pa", "pyarrow",
)  # fmt: skip
CLASS_PREFIXES = ("Hf", "HF", "Rich", "Torch")  # at the start of a class name: HfApi, RichHandler, TorchScript

logger = logging.getLogger(__name__)


def write_docstrings(target: Path, rows: int = 3000, seed: int = 0) -> Path:
    """Write a CSV with the columns text and label; the same for the same libraries, rows and seed.

    Args:
        rows: Rows in all; each library gets an equal share as far as it has that many.
        seed: Of the sampling of files and rows, and of their order.

    Raises:
        DataError: Too few of the libraries are installed with their sources.
    """
    found = {name: docstrings_of(name, seed) for name in LIBRARIES}
    missing = [name for name, texts in found.items() if not texts]
    for name in missing:
        logger.warning("The sources of %s are not here; its docstrings are left out.", name)
        del found[name]
    if len(found) < FEWEST_LIBRARIES:
        raise DataError(
            _("Only {n} of the libraries whose docstrings are read are here: {names}.").format(
                n=len(found), names=", ".join(found) or "-"
            ),
            _("Train on a file of your own: trainwright init FILE"),
        )
    sampled = balanced(found, rows, random.Random(seed))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with open(temporary, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("text", "label"), *sampled])
    os.replace(temporary, target)
    return target


def docstrings_of(library: str, seed: int = 0) -> list[str]:
    """Masked docstrings of a library's modules, classes and functions, without duplicates, in a fixed order."""
    texts: dict[str, None] = {}
    for path in _sampled_files(library, seed):
        for text in _docstrings_in(path):
            cleaned = masked(" ".join(text.split()))[:LONGEST]
            if len(cleaned) >= SHORTEST:
                texts[cleaned] = None
    return list(texts)


def masked(text: str) -> str:
    """The text with the names of all libraries, and what gives them away, replaced by one word."""
    return _PATTERN.sub(MASK, text)


def balanced(found: dict[str, list[str]], rows: int, rng: random.Random) -> list[tuple[str, str]]:
    """Rows of (text, label): equal shares, what a small library lacks spread over the others; in random order.

    A text that two libraries share (they copy from each other) is left out.
    """
    seen: dict[str, int] = {}
    for texts in found.values():
        for text in texts:
            seen[text] = seen.get(text, 0) + 1
    unique = {name: [text for text in texts if seen[text] == 1] for name, texts in found.items()}
    chosen: list[tuple[str, str]] = []
    left, open_names = rows, sorted(unique, key=lambda name: (len(unique[name]), name))
    while open_names:
        name = open_names.pop(0)
        share = min(len(unique[name]), left // (len(open_names) + 1))
        chosen += [(text, name) for text in rng.sample(unique[name], share)]
        left -= share
    rng.shuffle(chosen)
    return chosen


def _sampled_files(library: str, seed: int) -> list[Path]:
    """Source files of an installed library, found without importing it; a sample where there are many."""
    spec = importlib.util.find_spec(library)
    if spec is None or not spec.submodule_search_locations:
        return []
    root = Path(spec.submodule_search_locations[0])
    files = [file.relative_to(root) for file in root.rglob("*.py")]
    places = sorted(file.as_posix() for file in files if not LEFT_OUT & set(file.parts))
    if len(places) > MOST_FILES:
        places = sorted(random.Random(f"{library}/{seed}").sample(places, MOST_FILES))
    return [root / place for place in places]


def _docstrings_in(path: Path) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's strings
            tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node, clean=True)
            if text:
                yield text


def _pattern() -> re.Pattern[str]:
    """Whole words in any case, also within dotted and underlined names ("torch.nn", "hf_hub"), and class prefixes."""
    words = sorted({*LIBRARIES, *(name.replace("_", " ") for name in LIBRARIES), *GIVE_AWAYS}, key=len, reverse=True)
    whole = rf"(?i:{'|'.join(map(re.escape, words))})(?![A-Za-z0-9])"
    prefix = rf"(?:{'|'.join(CLASS_PREFIXES)})(?=[A-Z][a-z])"
    return re.compile(rf"(?<![A-Za-z0-9])(?:{whole}|{prefix})")


_PATTERN = _pattern()

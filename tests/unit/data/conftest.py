"""Tokenizers small enough to be made in a moment, and requests for data."""

import json
import string

import pytest

from trainwright.data.request import DataRequest

WORDS = ["the", "a", "good", "bad", "film", "plot", "very", "not", "was", "is", "it", "and", "of", "movie", "story"]
WORDS += ["acting", "great", "awful"]
CHINESE = "你好世界很不书的这本"


@pytest.fixture(scope="session")
def word_pieces(tmp_path_factory):
    """A folder with a WordPiece tokenizer as BERT has it: [CLS] text [SEP], unknown words by letters."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = string.ascii_lowercase + string.digits + ".,!?'\""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, *(set(letters) - set(WORDS)), *CHINESE]
    tokens += [f"##{letter}" for letter in string.ascii_lowercase + string.digits]
    vocabulary = {token: place for place, token in enumerate(dict.fromkeys(tokens[:4] + sorted(tokens[4:])))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return _saved(tmp_path_factory.mktemp("word_pieces"), tokenizer, pad="[PAD]", unk="[UNK]")


@pytest.fixture(scope="session")
def byte_pairs(tmp_path_factory):
    """A folder with a byte-level BPE tokenizer as RoBERTa has it: <s> text </s>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<s>", "</s>", "<pad>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([" ".join(WORDS)] * 10, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    return _saved(tmp_path_factory.mktemp("byte_pairs"), tokenizer, pad="<pad>", unk=None)


def _saved(folder, tokenizer, pad, unk):
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": pad, "unk_token": unk}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.fixture
def request_data(word_pieces):
    """Makes a request: ``request_data(train=path, label="stars")``."""

    def make(train, **changes):
        plain = {
            "train": train if isinstance(train, tuple) else str(train),
            "validation": None,
            "test": None,
            "text": "text",
            "label": "label",
            "labels": None,
            "max_length": "auto",
            "empty_rows": "drop",
            "seed": 42,
            "model_folder": str(word_pieces),
            "model_max_length": 512,
        }
        paths = {name: str(value) for name, value in changes.items() if name in ("validation", "test") and value}
        return DataRequest(**(plain | changes | paths))

    return make


@pytest.fixture
def write_table(tmp_path):
    """Writes a CSV file from rows of (text, label): ``write_table("reviews.csv", rows)``."""
    import csv

    def write(name, rows, header=("text", "label")):
        path = tmp_path / name
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return path

    return write


@pytest.fixture
def many_reviews():
    """400 different texts in two classes of 240 and 160 rows."""
    return [(f"{WORDS[n % 18]} {WORDS[n // 18 % 18]} film {n}", "pos" if n % 5 < 3 else "neg") for n in range(400)]


@pytest.fixture
def part_of(write_table, tmp_path):
    """A split with all rows of a table: ``part_of("train", rows)``."""

    import numpy as np

    from trainwright.data.audit import Part
    from trainwright.data.rows import read_rows
    from trainwright.data.store import TEXT_SCHEMA, ArrowWriter, TextRows

    names = ["neg", "pos"]

    def make(name, rows):
        path = write_table(f"{name}.csv", rows)
        with ArrowWriter(tmp_path / f"{name}.arrow", TEXT_SCHEMA) as writer:
            table = read_rows(path, "text", "label", lambda texts: writer.write(texts))
        labels = np.array([names.index(table.names[code]) for code in table.codes], dtype=np.int32)
        blank = np.flatnonzero(table.blank)
        texts = TextRows(tmp_path / f"{name}.arrow")
        return Part(name, table, texts, np.arange(len(table)), labels, blank, dropped=0, whole=True)

    return make

"""Token ids of many texts, as fast as the tokenizer's own batches go, without special tokens."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from trainwright.errors import ModelError
from trainwright.messages.text import _

# Texts that show what a tokenizer adds: words, numbers, another script, nothing, and many words.
SAMPLES = ("Two words", "It costs 3.50, doesn't it?", "你好，世界", "", "again and " * 50)


@dataclass(frozen=True)
class Tokenizer:
    """A fast tokenizer, and what it puts around a text, or around and between two.

    Attributes:
        backend: The tokenizer of the `tokenizers` library, with truncation and padding off.
        prefix: Ids before each text.
        suffix: Ids after each text.
        pad_id: Id for padding.
        unknown_id: Id of the unknown token; None if it has none.
        middle: Ids between two texts; None for single texts.
        second_type: Token type of the second text and of what is behind it; None where there are no token types.
    """

    backend: Any
    prefix: list[int]
    suffix: list[int]
    pad_id: int
    unknown_id: int | None
    middle: list[int] | None = None
    second_type: int | None = None

    @property
    def specials(self) -> int:
        """Number of tokens that are put around and between the texts of a row."""
        return len(self.prefix) + len(self.middle or []) + len(self.suffix)

    def encode(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Token ids of all texts one after the other, int32, and the number of each text's, int32."""
        ids = [encoding.ids for encoding in self._encode_batch(texts, add_special_tokens=False)]
        lengths = np.fromiter(map(len, ids), dtype=np.int32, count=len(ids))
        return np.fromiter(chain.from_iterable(ids), dtype=np.int32, count=int(lengths.sum())), lengths

    @property
    def _encode_batch(self) -> Any:
        return getattr(self.backend, "encode_batch_fast", self.backend.encode_batch)  # fast: without offsets


def load_tokenizer(folder: Path, pairs: bool = False) -> Tokenizer:
    """Load the tokenizer of a model folder, for single texts or for pairs.

    Raises:
        ModelError: There is none, it is a slow one, it cuts from the left, has no token for padding, or adds more
            than tokens before, between and after texts.
    """
    from transformers import AutoTokenizer

    os.environ["TOKENIZERS_PARALLELISM"] = "true"  # transformers turns it off in some processes
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # of any kind: `tokenizers` raises plain ones for files that it cannot make sense of
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        text = _("The tokenizer in {folder} cannot be loaded: {reason}").format(folder=folder, reason=reason)
        raise ModelError(text, _("Copy the model's tokenizer files into that folder again.")) from error
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        text = _("The tokenizer in {folder} has no fast version (tokenizer.json).").format(folder=folder)
        raise ModelError(text, _("Convert it with the `tokenizers` library, or choose another model."))
    if backend.get_vocab_size() <= len(tokenizer.all_special_ids):  # transformers makes an empty one from no files
        text = _("The tokenizer in {folder} has no vocabulary.").format(folder=folder)
        raise ModelError(text, _("Copy the model's tokenizer files into that folder again."))
    if tokenizer.truncation_side != "right":
        text = _("The tokenizer in {folder} cuts long texts at their start.").format(folder=folder)
        raise ModelError(text, _('Set "truncation_side": "right" in its tokenizer_config.json.'))
    backend.no_truncation()
    backend.no_padding()
    pad, unknown = _pad_id(tokenizer, folder), tokenizer.unk_token_id
    if pairs:
        prefix, middle, suffix = _around_pairs(tokenizer, backend, folder)
        second_type = _second_type(tokenizer, folder) if "token_type_ids" in tokenizer.model_input_names else None
        return Tokenizer(backend, prefix, suffix, pad, unknown, middle, second_type)
    prefix, suffix = _surroundings(tokenizer, backend, folder)
    return Tokenizer(backend, prefix, suffix, pad, unknown)


def encode_all(tokenizer: Tokenizer, batches: Iterable[list[str]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Encode batches of texts in order; the next batch is encoded while the last one is made use of.

    The backend uses all cores by itself and holds no lock of Python's meanwhile, so one thread is enough, and no
    process is forked that could hang.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        coming = None
        for texts in batches:
            ready, coming = coming, thread.submit(tokenizer.encode, texts)
            if ready is not None:
                yield ready.result()
        if coming is not None:
            yield coming.result()


def _surroundings(tokenizer: Any, backend: Any, folder: Path) -> tuple[list[int], list[int]]:
    """What the tokenizer puts before and after a single text, checked on several texts."""
    full, own = tokenizer(SAMPLES[0])["input_ids"], backend.encode(SAMPLES[0], add_special_tokens=False).ids
    starts = [place for place in range(len(full)) if full[place : place + len(own)] == own]
    before = starts[0] if starts else 0
    prefix, suffix = list(full[:before]), list(full[before + len(own) :])
    for text in SAMPLES:
        own = backend.encode(text, add_special_tokens=False).ids
        if list(tokenizer(text)["input_ids"]) != prefix + own + suffix:
            message = _("The tokenizer in {folder} adds more to a text than tokens before and after it.")
            raise ModelError(message.format(folder=folder), _("Choose another model."))
    return prefix, suffix


def _around_pairs(tokenizer: Any, backend: Any, folder: Path) -> tuple[list[int], list[int], list[int]]:
    """What the tokenizer puts before, between and after two texts, checked on several pairs.

    A second text that is empty is left out of the check: transformers takes it for none.
    """
    own = [backend.encode(text, add_special_tokens=False).ids for text in SAMPLES]
    full = list(tokenizer(SAMPLES[0], SAMPLES[1])["input_ids"])
    before = next((n for n in range(len(full)) if full[n : n + len(own[0])] == own[0]), 0)
    rest = full[before + len(own[0]) :]
    between = next((n for n in range(len(rest)) if rest[n : n + len(own[1])] == own[1]), 0)
    prefix, middle, suffix = full[:before], rest[:between], rest[between + len(own[1]) :]
    for one, text in zip(own, SAMPLES, strict=True):
        for other, second in zip(own, SAMPLES, strict=True):
            if second and list(tokenizer(text, second)["input_ids"]) != prefix + one + middle + other + suffix:
                message = _(
                    "The tokenizer in {folder} adds more to two texts than tokens before, between and after them."
                )
                raise ModelError(message.format(folder=folder), _("Choose another model."))
    return prefix, middle, suffix


def _second_type(tokenizer: Any, folder: Path) -> int:
    """The token type from the second text on, where all before it has type 0."""
    types = list(tokenizer(SAMPLES[0], SAMPLES[1])["token_type_ids"])
    second = int(types[-1])
    if types != [0] * types.count(0) + [second] * types.count(second):
        message = _("The tokenizer in {folder} numbers the types of two texts in a way that is not known here.")
        raise ModelError(message.format(folder=folder), _("Choose another model."))
    return second


def _pad_id(tokenizer: Any, folder: Path) -> int:
    for token_id in (tokenizer.pad_token_id, tokenizer.eos_token_id):  # models without padding pad with their end token
        if token_id is not None:
            return int(token_id)
    text = _("The tokenizer in {folder} has no token for padding and no end token.").format(folder=folder)
    raise ModelError(text, _('Name one as "pad_token" in its tokenizer_config.json.'))

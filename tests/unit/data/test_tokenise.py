import json
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from trainwright.data.tokenise import _surroundings, encode_all, load_tokenizer
from trainwright.errors import ModelError


def test_ids_and_surroundings_are_those_of_the_tokenizer(word_pieces):
    from transformers import AutoTokenizer

    reference, ours = AutoTokenizer.from_pretrained(word_pieces), load_tokenizer(word_pieces)
    texts = ["the good film", "", "你好 world 3.5!", "zzz ☃"]
    ids, lengths = ours.encode(texts)
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int32)
    cuts = np.cumsum(lengths)[:-1]
    rows = [ours.prefix + part.tolist() + ours.suffix for part in np.split(ids, cuts)]
    assert rows == [reference(text)["input_ids"] for text in texts]
    assert (ours.prefix, ours.suffix, ours.pad_id, ours.unknown_id) == ([2], [3], 0, 1)


def test_another_family_has_other_surroundings(byte_pairs):
    ours = load_tokenizer(byte_pairs)
    assert (ours.prefix, ours.suffix, ours.pad_id, ours.unknown_id) == ([0], [1], 2, None)


def test_batches_come_out_in_order(word_pieces):
    ours = load_tokenizer(word_pieces)
    batches = [[f"film {random.Random(n).random()}" for _place in range(n)] for n in (3, 1, 7, 2)]
    together, lengths = zip(*encode_all(ours, iter(batches)), strict=True)
    expected_ids, expected_lengths = ours.encode([text for batch in batches for text in batch])
    assert np.concatenate(together).tolist() == expected_ids.tolist()
    assert np.concatenate(lengths).tolist() == expected_lengths.tolist()


def test_no_batches_are_no_rows(word_pieces):
    assert list(encode_all(load_tokenizer(word_pieces), [])) == []


def with_config(folder, target, **changes):
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "tokenizer_config.json").read_text()) | changes
    (target / "tokenizer_config.json").write_text(json.dumps(config))
    return target


def test_a_tokenizer_that_cuts_from_the_left_is_refused(word_pieces, tmp_path):
    folder = with_config(word_pieces, tmp_path / "left", truncation_side="left")
    with pytest.raises(ModelError, match="cuts long texts at their start"):
        load_tokenizer(folder)


def test_a_tokenizer_that_adds_more_than_both_ends_is_refused():
    def marked(text):  # a mark after each word
        return {"input_ids": [token for number, _word in enumerate(text.split()) for token in (number, 99)]}

    backend = SimpleNamespace(
        encode=lambda text, add_special_tokens: SimpleNamespace(ids=list(range(len(text.split()))))
    )
    with pytest.raises(ModelError, match="adds more to a text than tokens before and after it"):
        _surroundings(marked, backend, Path("model"))


def test_a_tokenizer_without_padding_or_end_is_refused(byte_pairs, tmp_path):
    with pytest.raises(ModelError, match="no token for padding and no end token"):
        load_tokenizer(with_config(byte_pairs, tmp_path / "nopad", pad_token=None))


def test_a_tokenizer_without_padding_pads_with_its_end_token(byte_pairs, tmp_path):
    folder = with_config(byte_pairs, tmp_path / "end", pad_token=None, eos_token="</s>")
    assert load_tokenizer(folder).pad_id == 1


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match="has no vocabulary"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("content", ["{", '{"model": {"type": "Unheard"}}'])
def test_a_broken_tokenizer_file_is_refused(word_pieces, tmp_path, content):
    folder = with_config(word_pieces, tmp_path / "broken")
    (folder / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_tokenizer(folder)

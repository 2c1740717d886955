import hashlib
import sys

import pytest

from trainwright.errors import ModelError
from trainwright.model import packaged
from trainwright.model.locate import locate, position_limit
from trainwright.model.packaged import PACKAGES, Packaged, packaged_folder


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package with a model folder, and its entry in the table."""
    folder = tmp_path / "tiny_model_package" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "model.safetensors").write_bytes(b"weights")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = Packaged("tiny_model_package", "model", hashlib.sha256(b"weights").hexdigest(), "quickstart", "none")
    monkeypatch.setitem(PACKAGES, "tiny", entry)
    monkeypatch.setattr(packaged, "_verified", set())
    return folder


def test_the_folder_is_found_without_importing_the_package(package):
    assert packaged_folder("packaged:tiny") == package
    assert "tiny_model_package" not in sys.modules


def test_changed_weights_are_refused_with_both_hashes(package):
    packaged_folder("packaged:tiny")
    (package / "model.safetensors").write_bytes(b"weighty")
    with pytest.raises(ModelError, match=hashlib.sha256(b"weighty").hexdigest()):
        packaged_folder("packaged:tiny")


def test_a_package_that_is_not_installed_names_the_install_line(monkeypatch):
    monkeypatch.setitem(PACKAGES, "tiny", Packaged("not_there_at_all", "model", "", "quickstart", "none"))
    with pytest.raises(ModelError, match=r"pip install 'trainwright\[quickstart\]'"):
        packaged_folder("packaged:tiny")


def test_an_unknown_name_names_the_known_ones():
    with pytest.raises(ModelError, match="packaged:all-minilm-l6-v2"):
        packaged_folder("packaged:other")


def test_the_quickstarts_encoder_is_the_file_that_is_expected(minilm):
    found = locate("packaged:all-minilm-l6-v2")
    assert found.folder == minilm
    assert found.max_length == 512


def test_a_folder_is_checked_before_anything_is_trained(tmp_path, tiny_bert):
    assert locate(str(tiny_bert)).max_length == 128
    with pytest.raises(ModelError, match=r"no config\.json"):
        locate(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="no weights"):
        locate(str(tmp_path))
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(ModelError, match="a pickle"):
        locate(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 5\n")
    with pytest.raises(ModelError, match="pointer"):
        locate(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"w" * 2000)
    with pytest.raises(ModelError, match="no tokenizer"):
        locate(str(tmp_path))


def test_a_model_that_is_neither_folder_nor_in_the_cache_says_so_and_offers_a_way(monkeypatch):
    with pytest.raises(ModelError, match=r"nobody/nothing.*quickstart"):
        locate("nobody/nothing")


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "t5"}, None),
        ({"model_type": "deberta-v2", "max_position_embeddings": 512}, 512),
    ],
)
def test_the_position_table_limits_the_length_and_hides_two_slots_in_roberta(config, limit):
    assert position_limit(config) == limit

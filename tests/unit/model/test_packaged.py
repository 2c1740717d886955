import hashlib
import sys

import pytest

from trainwright.errors import ModelError
from trainwright.model import packaged
from trainwright.model.locate import locate
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

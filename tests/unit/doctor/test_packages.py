"""Clashes of versions, as old guides and half-upgraded images have them."""

import importlib.metadata
import sys

import pytest
from packaging.requirements import Requirement

from trainwright.doctor.packages import see_packages


def blockers(checks):
    return {name for name, check in checks.items() if check.verdict == "blocker"}


def test_what_is_required_is_read_from_the_metadata_of_the_package(installed):
    written = {Requirement(one).name: str(Requirement(one).specifier) for one in installed.requires["trainwright"]}
    assert "<6" in written["transformers"]
    assert written["torch"].startswith(">=")
    assert installed.python == importlib.metadata.metadata("trainwright")["Requires-Python"]
    assert any(one.startswith("modelscope-hub") for one in installed.extras["modelscope"])
    assert not any("torch>=" in one for one in installed.extras["modelscope"])


def test_this_environment_fits(facts_of, found):
    assert {name for name in found(facts_of()) if name.startswith("versions.")} == set()


def test_the_stack_of_an_old_guide_names_each_package_and_the_pair_that_clashes(facts_of, found):
    checks = found(facts_of(torch="1.12.1", transformers="4.26.0", torchtext="0.13.1", numpy="2.4.6"))
    assert blockers(checks) == {"versions.torch", "versions.transformers", "versions.numpy-torch"}
    assert checks["versions.numpy-torch"].evidence == {"numpy": "2.4.6", "torch": "1.12.1"}
    assert "1.12.1" in checks["versions.torch"].message
    assert checks["versions.transformers"].fix.install == ("transformers<6,>=5.17",)


def test_numpy_2_with_a_torch_before_2_3_is_mended_by_the_torch_that_is_needed_anyway(facts_of, found):
    checks = found(facts_of(torch="2.2.2", numpy="2.0.0"))
    assert {"versions.numpy-torch", "versions.torch"} <= blockers(checks)
    assert "torch>=2.6" in checks["versions.numpy-torch"].fix.command


@pytest.mark.parametrize(("numpy", "torch"), [("1.26.4", "2.2.2"), ("2.0.0", "2.3.0")])
def test_versions_that_go_together_are_no_pair(facts_of, found, numpy, torch):
    assert "versions.numpy-torch" not in found(facts_of(torch=torch, numpy=numpy))


def test_the_newest_transformers_takes_an_old_torch_for_absent(facts_of, found):
    checks = found(facts_of(torch="2.0.1"))
    assert checks["versions.transformers-torch"].verdict == "blocker"


def test_torchtext_beside_a_newer_torch_is_a_warning_since_it_is_not_needed(facts_of, found):
    checks = found(facts_of(torchtext="0.18.0"))
    assert blockers(checks) == set()
    assert checks["versions.torchtext-torch"].verdict == "warning"
    assert "uninstall -y torchtext" in checks["versions.torchtext-torch"].fix.command
    assert not checks["versions.torchtext-torch"].fix.safe  # it removes something


def test_torchtext_beside_a_torch_below_the_floor_blocks_because_of_torch(facts_of, found):
    assert "versions.torch" in blockers(found(facts_of(torchtext="0.18.0", torch="2.4.0")))


def test_a_missing_package_is_named_with_the_line_that_brings_it(facts_of, found):
    checks = found(facts_of(accelerate=None))
    assert blockers(checks) == {"versions.accelerate"}
    assert "missing" in checks["versions.accelerate"].message
    assert checks["versions.accelerate"].fix.safe
    assert "-m pip install 'accelerate>=1.10'" in checks["versions.accelerate"].fix.command


def test_a_version_above_the_range_is_refused_too(facts_of, found):
    checks = found(facts_of(transformers="6.0.0"))
    assert blockers(checks) == {"versions.transformers"}
    assert "6.0.0" in checks["versions.transformers"].message


def test_a_clash_that_a_package_declares_itself_is_found(facts_of, found):
    """transformers names the tokenizers that it takes; an upgrade of one alone breaks its import."""
    checks = found(facts_of(tokenizers="0.15.2"))
    assert blockers(checks) == {"versions.transformers-tokenizers"}
    assert "0.15.2" in checks["versions.transformers-tokenizers"].message
    assert checks["versions.transformers-tokenizers"].fix.install[0].startswith("tokenizers")


def test_python_beyond_the_range_is_refused(facts_of, found):
    from dataclasses import replace

    facts = facts_of()
    facts = replace(facts, machine=replace(facts.machine, python="3.10.14"))
    assert "3.10.14" in found(facts)["versions.python"].message


def test_packages_beside_torch_are_read_from_their_folders(tmp_path, monkeypatch, facts_of, found):
    """A torchvision for another torch, as its real metadata says it."""
    folder = tmp_path / "torchvision-0.17.0.dist-info"
    folder.mkdir()
    text = "Metadata-Version: 2.1\nName: torchvision\nVersion: 0.17.0\nRequires-Dist: torch ==2.2.0\n"
    (folder / "METADATA").write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    packages = see_packages()
    assert packages.versions["torchvision"] == "0.17.0"
    from dataclasses import replace

    check = found(replace(facts_of(), packages=packages))["versions.torchvision-torch"]
    assert (check.verdict, check.evidence["torchvision"]) == ("warning", "0.17.0")

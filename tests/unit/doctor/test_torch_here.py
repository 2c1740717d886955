"""torch that is missing, broken, slow or built for another card; the broken ones are real files on a real path."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from trainwright.doctor import torch_child
from trainwright.doctor.records import CardsSeen, TorchCard
from trainwright.doctor.torch_here import read_torch, start_torch

# What the build for CUDA 12.6 is compiled for
CU126 = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]


@pytest.fixture
def torch_that(tmp_path, monkeypatch):
    """Puts a torch of one's own in front of the real one, for child processes."""

    def make(code: str) -> None:
        (tmp_path / "torch.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))

    return make


def test_the_real_torch_is_imported_and_makes_arrays():
    import torch

    seen = read_torch(start_torch())
    assert (seen.error, seen.version, seen.cuda) == ("", torch.__version__, torch.version.cuda)
    assert seen.to_numpy == ""
    assert seen.seconds > 0


def test_a_torch_that_is_missing_is_an_answer(torch_that, facts_of, found):
    torch_that("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    seen = read_torch(start_torch())
    assert seen.error == "ModuleNotFoundError: No module named 'torch'"
    checks = found(replace(facts_of(torch=None), torch=seen))
    assert checks["versions.torch"].verdict == "blocker"
    assert checks["versions.torch-import"].verdict == "not available"


def test_a_library_that_does_not_load_is_told_with_its_reason(torch_that, facts_of, found):
    torch_that("raise OSError('libcudart.so.12: cannot open shared object file')")
    check = found(replace(facts_of(), torch=read_torch(start_torch())))["versions.torch-import"]
    assert check.verdict == "blocker"
    assert "libcudart.so.12" in check.message
    assert "--force-reinstall" in check.fix.command


def test_a_torch_that_ends_the_process_ends_only_the_child(torch_that):
    torch_that("import os, signal; print('noise'); os.kill(os.getpid(), signal.SIGSEGV)")
    seen = read_torch(start_torch())
    assert seen.error == "ended while importing torch (SIGSEGV)"


def test_a_torch_that_never_comes_back_is_given_up(torch_that):
    torch_that("import time; time.sleep(600)")
    assert read_torch(start_torch(), seconds=0.5).error.startswith("no end after")


def test_the_kernel_counts_what_it_computes():
    """On the processor, whose result a card must have too: 16 ones times 16 ones in each of 256 places."""
    import torch

    assert torch_child.kernel_problem(torch, "cpu") == ""
    assert "Error" in torch_child.kernel_problem(torch, "no-such-device")


def test_a_wrong_result_of_the_kernel_is_seen(monkeypatch):
    import torch

    class Wrong:
        @staticmethod
        def ones(*shape, device):
            return torch.full(shape, 2.0)

    assert torch_child.kernel_problem(Wrong, "cpu") == "a sum that is 4096 came out as 16384.0"


def test_what_the_child_writes_is_json_whatever_is_printed_beside_it(torch_that):
    torch_that("print('A module that was compiled using NumPy 1.x cannot be run'); raise ImportError('x')")
    shown = subprocess.run([sys.executable, "-m", "trainwright.doctor.torch_child"], capture_output=True, text=True)
    assert [json.loads(line) for line in shown.stdout.splitlines()][-1] == {"error": "ImportError: x"}
    assert "compiled using NumPy" in shown.stderr


# -- made-up cards ----------------------------------------------------------------------------------------------------


def test_arrays_that_cannot_be_made_are_a_blocker(facts_of, found):
    check = found(facts_of(seen={"to_numpy": "RuntimeError: Numpy is not available"}))["versions.tensor-array"]
    assert (check.verdict, "Numpy is not available" in check.message) == ("blocker", True)


@pytest.mark.parametrize("name", ["v100-16g", "gtx1070"])
def test_a_card_older_than_the_build_gets_the_build_for_cuda_12_6(facts_of, found, name):
    checks = found(facts_of(name, torch="2.13.0+cu128"))
    assert checks["versions.torch-build"].verdict == "blocker"
    assert "torch==2.13.0+cu126" in checks["versions.torch-build"].fix.command
    assert checks["versions.torch-build"].fix.command.endswith("/whl/cu126")
    assert not checks["versions.torch-build"].fix.safe
    assert "versions.torch-build" not in found(facts_of(name, seen={"cuda": "12.6", "architectures": CU126}))


def test_a_card_newer_than_the_build_gets_a_newer_build_and_a_torch_that_has_it(facts_of, found):
    checks = found(facts_of("5090-32g", seen={"cuda": "12.4", "architectures": CU126}, torch="2.6.0+cu124"))
    assert "12.0" in checks["versions.torch-build"].message
    assert "'torch>=2.7' --index-url" in checks["versions.torch-build"].fix.command
    assert checks["versions.torch-build"].fix.command.endswith("/whl/cu128")


def test_cuda_that_is_available_does_not_pass_where_the_kernel_fails(facts_of, found):
    error = "AcceleratorError: no kernel image is available for execution on the device"
    facts = facts_of("4090-24g", seen={"cards": [TorchCard(0, "NVIDIA GeForce RTX 4090", error)]})
    check = found(facts)["versions.kernel"]
    assert (check.verdict, "no kernel image" in check.message) == ("blocker", True)


def test_a_build_without_cuda_does_not_use_the_card(facts_of, found):
    facts = facts_of("a100-80g", seen={"cuda": None, "architectures": [], "cards": []}, torch="2.13.0+cpu")
    check = found(facts)["versions.torch-build"]
    assert (check.verdict, "without CUDA" in check.message) == ("blocker", True)
    assert "torch==2.13.0+cu126" in check.fix.command


def test_a_driver_older_than_the_build_gets_a_build_that_it_serves(facts_of, found):
    facts = facts_of("4090-24g", seen={"cuda": "13.0"}, torch="2.13.0+cu130")
    facts = replace(facts, cards=CardsSeen(driver="550.54.15", cuda=(12, 4)))
    check = found(facts)["versions.driver"]
    assert check.evidence == {"driver": "550.54.15", "serves_cuda": 12, "built_for_cuda": "13.0"}
    assert "torch==2.13.0+cu126" in check.fix.command


def test_within_one_major_version_an_older_driver_serves_a_newer_build(facts_of, found):
    facts = replace(facts_of("4090-24g"), cards=CardsSeen(driver="525.85.12", cuda=(12, 0)))
    assert "versions.driver" not in found(facts)  # the build is for 12.8


def test_a_driver_that_serves_no_build_for_the_card_is_said_and_no_line_is_made_up(facts_of, found):
    facts = replace(facts_of("4090-24g"), cards=CardsSeen(driver="470.82", cuda=(11, 4)))
    assert found(facts)["versions.driver"].fix.command == ""


def test_a_card_too_old_for_every_build_is_hidden(facts_of, found):
    facts = facts_of("gtx1070")
    card = replace(facts.machine.gpus[0], name="Tesla K80", capability=(3, 7))
    facts = replace(facts, machine=replace(facts.machine, gpus=[card]))
    assert found(facts)["versions.torch-build"].fix.command == "export CUDA_VISIBLE_DEVICES="

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))
from torch_choice import covers as covers_of_the_setup

from trainwright.doctor.builds import build_for, covers, served_cuda

LISTS = (["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"], ["sm_75", "compute_120"], ["sm_90a"], [])
CARDS = [(5, 2), (6, 1), (7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0), (12, 1)]


@pytest.mark.parametrize("architectures", LISTS)
def test_the_set_up_and_the_doctor_agree_on_what_a_build_covers(architectures):
    assert [covers(architectures, card) for card in CARDS] == [covers_of_the_setup(architectures, c) for c in CARDS]


def test_binary_code_runs_within_its_major_version_and_ptx_on_every_later_card():
    assert covers(["sm_86"], (8, 9))
    assert not covers(["sm_86"], (8, 0))
    assert not covers(["sm_90"], (12, 0))
    assert covers(["compute_90"], (12, 0))


@pytest.mark.parametrize(
    ("capabilities", "cuda", "name"),
    [
        ([(7, 0)], 12, "cu126"),  # V100
        ([(6, 1)], 13, "cu126"),  # GTX 10
        ([(12, 0)], 13, "cu128"),  # RTX 50
        ([(12, 1)], 13, "cu130"),
        ([(12, 1)], 12, None),  # needs CUDA 13, which the driver does not serve
        ([(8, 0), (12, 0)], 12, "cu128"),
        ([(7, 0), (12, 0)], 13, None),  # no build has both
        ([(3, 5)], 13, None),  # a K80
        ([(8, 0)], 11, None),
        ([(8, 0)], None, "cu126"),
    ],
)
def test_the_build_for_cards_and_driver(capabilities, cuda, name):
    build = build_for(capabilities, cuda)
    assert (build and build.name) == name


@pytest.mark.parametrize(
    ("driver", "told", "major"),
    [
        ("470.82.01", None, 11),
        ("525.60.13", None, 12),
        ("525.59", None, 11),
        ("580.65.06", None, 13),
        ("550.54.15", (12, 4), 12),
        ("390.48", None, 0),
        (None, None, None),
    ],
)
def test_what_a_driver_serves(driver, told, major):
    assert served_cuda(driver, told) == major

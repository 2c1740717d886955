import os
import subprocess
import sys

import pytest

from trainwright.launch.local import child_environment, is_alive, offline


def test_threads_of_the_child_spin_only_shortly_unless_the_user_has_said_how_they_wait():
    assert child_environment({"PATH": "x"})["GOMP_SPINCOUNT"] == "5000"
    assert "GOMP_SPINCOUNT" not in child_environment({"OMP_WAIT_POLICY": "ACTIVE"})
    assert child_environment({"GOMP_SPINCOUNT": "7"})["GOMP_SPINCOUNT"] == "7"


def test_the_child_keeps_few_shapes_of_matrix_products_unless_the_user_has_said_how_many():
    assert child_environment({})["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "64"
    assert child_environment({"LRU_CACHE_CAPACITY": "1024"})["LRU_CACHE_CAPACITY"] == "1024"


def test_the_given_environment_is_kept_and_left_as_it_is():
    given = {"HOME": "/x"}
    assert child_environment(given)["HOME"] == "/x"
    assert given == {"HOME": "/x"}


def test_a_child_that_has_its_model_asks_no_hub_unless_the_user_has_said_otherwise():
    assert offline({}) == {"HF_HUB_OFFLINE": "1"}
    assert offline({"HF_HUB_OFFLINE": "0"}) == {}


@pytest.mark.parametrize("words", [["trainwright"], ["something-else"]])
def test_a_number_that_another_program_has_now_is_not_taken_for_ours(words):
    program = "import time; print('up', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.readline()  # before it runs, its command line may still be empty
        assert is_alive(process.pid) == (words == ["trainwright"])
    finally:
        process.kill()
        process.communicate()
    assert not is_alive(process.pid)


def test_this_process_is_alive_and_nobody_is_not():
    assert is_alive(os.getpid())
    assert not is_alive(None)
    assert not is_alive(2**22 + 1)

"""Memory that was freed is used again instead of being asked for anew."""

import platform
import subprocess
import sys

import pytest

from trainwright.train.allocator import keep_freed_memory

PROGRAM = """
import resource, torch
from trainwright.train.allocator import keep_freed_memory
keep = {keep} and keep_freed_memory()
block = 100 * 2**20 // 4
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print([faults() for _time in range(10)][-1])  # the heap has to grow first
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_large_blocks_need_no_new_pages_again_and_again():
    def faults(keep):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(keep=keep)], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    pages = 100 * 2**20 // 4096
    assert faults(keep=True) < pages / 100
    assert faults(keep=False) > 2 * faults(keep=True) + 10  # else this test could not tell


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda _name: object())
    assert keep_freed_memory() is False

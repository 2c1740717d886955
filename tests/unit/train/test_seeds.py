import os
import subprocess
import sys

import numpy as np

from trainwright.train.seeds import seed_for, shuffled


def test_a_seed_depends_on_every_part_and_on_nothing_else():
    seeds = {seed_for("dropout", seed, step, piece) for seed in range(3) for step in range(3) for piece in range(3)}
    assert len(seeds) == 27
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_seed_is_the_same_under_another_hash_seed():
    code = "from trainwright.train.seeds import seed_for; print(seed_for('order', 42, 1))"
    run = [
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True
        )
        for hash_seed in ("1", "2")
    ]
    assert run[0].stdout == run[1].stdout == f"{seed_for('order', 42, 1)}\n"


def test_an_epoch_visits_every_row_once_in_an_order_of_its_own():
    first, second = shuffled(100, 42, 0), shuffled(100, 42, 1)
    assert sorted(first) == list(range(100))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, shuffled(100, 42, 0))

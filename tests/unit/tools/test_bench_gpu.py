"""The benchmark for a card goes its whole road on a processor, and counts as one would by hand."""

import json
import subprocess
import sys


def test_the_dry_run_measures_everything_but_what_needs_a_card(repo, tmp_path):
    out = tmp_path / "results.json"
    command = [sys.executable, "bench/gpu/speed.py", "--tiny", "--steps", "5", "--out", str(out)]
    done = subprocess.run(command, cwd=repo, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    trials = json.loads(out.read_text())["trials"]
    assert [(trial["work"], trial["contender"]) for trial in trials] == [
        (work, contender) for work in ("8", "mixed") for contender in ("stock bf16", "trainwright bf16")
    ]
    # 2 layers of width 32, 64 inside: 2 x (4 x 32 x 32 + 2 x 32 x 64) = 16,384 weights; rows of 8 tokens
    flop = 64 * 8 * (6 * 16_384 + 12 * 2 * 32 * 8)
    for trial in trials[:2]:
        assert abs(trial["flop_per_second"] * trial["seconds"] / flop - 1) < 1e-9
        assert abs(trial["real_tokens_per_second"] * trial["seconds"] - 64 * 8) < 1e-6
    assert trials[1]["kernel"] == "groups of equal length"
    assert all(trial["share_of_peak"] is None and trial["peak_bytes"] is None for trial in trials)

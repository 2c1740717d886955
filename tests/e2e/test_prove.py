"""``trainwright prove``: the user's own recipe, whole against cut and packed."""

import os
import sys


def test_a_recipe_is_proved_in_float64_and_leaves_nothing_behind(tmp_path, recipe, trainwright):
    written = recipe(dropout=0.1)
    before = sorted(tmp_path.iterdir())
    done = trainwright("prove", written, "--steps", 2)
    assert "2 steps of 16 rows in float64" in done.stdout
    assert "it is the same step, up to the rounding of float64" in done.stdout
    assert [line for line in done.stdout.splitlines() if "packed" in line and "not this model" not in line]
    assert sorted(tmp_path.iterdir()) == before


def test_a_step_that_is_cut_wrongly_is_found(tmp_path, recipe, trainwright):
    """The fault of stock transformers, put into the child: each micro-batch counts as if it were the whole step."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'trainwright.child' in sys.orig_argv and 'prove' in sys.orig_argv:\n"
        "    from trainwright.train import step\n"
        "    step.loss.count_labels = lambda batch: 1.0\n"
        "    step.ExactStep._over_ranks = lambda self, amount: 1.0\n"
    )
    path = os.pathsep.join([str(broken), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = trainwright("prove", recipe(), "--steps", 1, expect=1, PYTHONPATH=path)
    assert "changes what it learns" in done.stderr
    assert sys.executable not in done.stderr

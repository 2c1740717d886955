from typing import get_args

import pytest
import yaml

from trainwright.recipe.problems import _SCHEDULE_NEEDS
from trainwright.recipe.schema import Scheduler


def test_a_misspelt_key_names_the_nearest_and_its_line(refusal, least):
    message = refusal(least + "learn:\n  batch_size: 8\n  learning_rte: 1.0e-5\n")
    assert "recipe.yaml, line 5: learn.learning_rte is not a key; did you mean learn.learning_rate?" in message


def test_a_misspelt_section_names_the_section(refusal):
    message = refusal("model: x\ndatta: {train: a.csv}\n")
    assert "did you mean data?" in message
    assert "data is missing" not in message  # the same mistake is not told twice


def test_a_key_of_another_section_names_the_section(refusal, least):
    assert "learn.batch_size" in refusal(least + "batch_size: 8\n")
    assert "run.precision" in refusal(least + "learn: {precision: bf16}\n")
    assert "learn.learning_rate" in refusal(least + "trainer: {learning_rate: 1.0e-5}\n")


def test_a_field_of_training_arguments_is_sent_to_trainer_from_everywhere(refusal, least):
    for text in ("logging_steps: 5\n", "learn: {logging_steps: 5}\n", "run: {gradient_checkpointing: true}\n"):
        assert "belongs into trainer:" in refusal(least + text)


def test_trainer_takes_any_field_of_training_arguments_and_no_other(load, refusal, least):
    assert load(least + "trainer: {save_steps: 500}\n").recipe.trainer == {"save_steps": 500}
    assert "near it are save_steps" in refusal(least + "trainer: {save_stepz: 500}\n")


ANSWERED = (
    "evaluation_strategy",
    "eval_strategy",
    "overwrite_output_dir",
    "output_dir",
    "logging_dir",
    "group_by_length",
    "tokenizer",
    "auto_find_batch_size",
    "load_best_model_at_end",
)


def test_names_without_a_key_here_are_answered_by_name_wherever_they_stand(refusal, least):
    for name in ANSWERED:
        for text in (f"trainer: {{{name}: true}}\n", f"{name}: true\n", f"learn: {{{name}: true}}\n"):
            message = refusal(least + text)
            assert f"{name}: " in message
            assert "no such field" not in message
            assert "not a key" not in message


def test_all_problems_are_named_at_once_each_with_its_line(refusal):
    message = refusal(
        "model: x\ndata: {train: a.csv, max_length: 2, emtpy_rows: drop}\n"
        "learn:\n  batch_size: zero\n  momentum: 3\nrun:\n  device: tpu\n"
    )
    first, *rest = message.split("\n")
    assert first.endswith("has 5 problems:")
    expected = {
        "line 2: data.emtpy_rows": "data.empty_rows",
        "line 5: learn.momentum": "keys there are",
        "line 2: data.max_length": "8",
        "line 4: learn.batch_size": "'zero'",
        "line 7: run.device": "'tpu'",
    }
    assert len(rest) == 5
    for beginning, part in expected.items():
        assert [part in line for line in rest if line.strip().startswith(beginning)] == [True]


def test_a_missing_key_is_named(refusal):
    assert "data is missing" in refusal("model: x\n")
    assert "data.train is missing" in refusal("model: x\ndata: {text: review}\n")
    assert "name is missing" not in refusal("model: x\n")  # it has a default


def test_a_section_that_holds_no_keys_says_so_once(refusal):
    message = refusal("model: a\ndata: reviews.csv\n")
    assert "data must hold keys, not 'reviews.csv'" in message
    assert "missing" not in message


def test_the_value_seen_is_the_one_that_was_written(refusal, least):
    assert "learn.batch_size: True" in refusal(least + "learn: {batch_size: true}\n")
    assert "data.labels: ['a', None]" in refusal(least.replace("reviews.csv", "reviews.csv, labels: [a, ~]"))


def test_what_the_command_line_asks_for_is_not_blamed_on_the_file(refusal, least):
    message = refusal(least + "learn: {seed: 1}\n", "learn.seed=-1")
    assert message.startswith("--set learn.seed: -1")
    assert refusal(least, "learn.sede=3").startswith("--set learn.sede is not a key; did you mean learn.seed?")
    assert "did you mean learn.class_weights?" in refusal(least, "learn.class_weights.good=2")


def test_every_sentence_ends_once(refusal, least):
    for text in ("learn: {batch_sise: 1}\n", "output_dir: x\n", "learn: {seed: -1}\n", "learn: 3\n"):
        message = refusal(least + text)
        assert not any(doubled in message for doubled in ("..", "?.", ".?"))


def test_a_value_that_does_not_fit_is_answered_with_what_does(refusal, least):
    assert "0.06 does not fit: it takes a whole number (>= 0), a share such as 10%, auto." in refusal(
        least + "learn: {warmup_steps: 0.06}\n"
    )
    assert "'soon' does not fit: it takes a whole number (> 0), a share such as 10%, auto." in refusal(
        least + "learn: {eval_steps: soon}\n"
    )
    assert "0.1 does not fit: write a file, a share such as 10%, or none." in refusal(
        least.replace("reviews.csv", "reviews.csv, validation: 0.1")
    )
    assert "3.5 does not fit: a price is an amount with its currency, such as 3.5 CNY." in refusal(
        least + "run: {price_per_hour: 3.5}\n"
    )
    assert "put yes, no, on and off into quotes" in refusal(least + "learn: {class_weights: {yes: 2, no: 1}}\n")
    assert "at least 2 are needed" in refusal(least.replace("reviews.csv", "reviews.csv, labels: [good]"))


def test_shares_that_leave_nothing_to_train_on_are_refused(load, refusal, least):
    for validation, test in (("60%", "40%"), ("50%", "60%")):
        text = least.replace("reviews.csv", f"reviews.csv, validation: {validation}, test: {test}")
        assert "nothing is left to train on" in refusal(text)
    assert load(least.replace("reviews.csv", "reviews.csv, validation: 60%, test: 39%"))


def test_early_stopping_needs_evaluations(load, refusal, least):
    stopping = "learn: {early_stopping_patience: 2}\n"
    assert load(least + stopping)
    assert "data.validation is none" in refusal(least.replace("reviews.csv", "a.csv, validation: none") + stopping)


@pytest.mark.parametrize(
    ("schedule", "needed"),
    [("cosine_with_min_lr", "min_lr_rate: 0.1"), ("warmup_stable_decay", "num_decay_steps: 100")],
)
def test_a_schedule_that_needs_more_says_what_and_gets_it(load, refusal, least, schedule, needed):
    asked = least + f"learn: {{lr_scheduler_type: {schedule}}}\n"
    assert f"lr_scheduler_kwargs: {{{needed}}}" in refusal(asked)
    assert load(asked + f"trainer: {{lr_scheduler_kwargs: {{{needed}}}}}\n").recipe.learn.lr_scheduler_type == schedule


@pytest.mark.parametrize("schedule", get_args(Scheduler))
def test_transformers_makes_every_schedule_that_passes(load, least, schedule):
    """What a recipe may ask for must not fail later, in the middle of a run."""
    import torch
    from transformers import get_scheduler

    needed = _SCHEDULE_NEEDS.get(schedule)
    options = yaml.safe_load(needed) if needed else None
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    get_scheduler(schedule, optimizer, num_warmup_steps=2, num_training_steps=200, scheduler_specific_kwargs=options)
    text = f"trainer: {{lr_scheduler_kwargs: {needed}}}\n" if needed else ""
    assert load(least + f"learn: {{lr_scheduler_type: {schedule}}}\n" + text)

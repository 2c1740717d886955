"""Every private or changed method of transformers that we override, with the signature we expect of it.

A version with another signature stops with the versions known to work, before anything is trained wrongly.
"""

from __future__ import annotations

import inspect

import transformers

from trainwright.errors import CheckFailed

KNOWN_TO_WORK = "transformers >=5.17,<6"

# method -> parameters, without self
OVERRIDDEN: dict[str, tuple[str, ...]] = {
    # public
    "get_train_dataloader": (),
    "get_eval_dataloader": ("eval_dataset",),
    "get_test_dataloader": ("test_dataset",),
    "get_batch_samples": ("epoch_iterator", "num_batches", "device"),
    "training_step": ("model", "inputs", "num_items_in_batch"),
    "compute_loss": ("model", "inputs", "return_outputs", "num_items_in_batch"),
    "floating_point_ops": ("inputs",),
    "create_optimizer": ("model",),
    "evaluation_loop": (
        "dataloader",
        "description",
        "prediction_loss_only",
        "ignore_keys",
        "metric_key_prefix",
    ),
    "train": ("resume_from_checkpoint", "trial", "ignore_keys_for_eval"),
    # private: no public method does it
    "_track_num_input_tokens": ("inputs",),  # reads input ids of a padded batch, which a step is not
    "_get_output_dir": ("trial",),  # where the staging folder comes in
    "_save_checkpoint": ("model", "trial"),  # staged, hashed and renamed when whole
}

# private methods that we call without changing them
CALLED: dict[str, tuple[str, ...]] = {
    "_prepare_inputs": ("inputs",),
    "_get_train_sampler": ("train_dataset",),
}


def problems() -> list[str]:
    """What differs between this version's methods and the ones expected; empty if nothing does."""
    found = []
    for name, expected in (OVERRIDDEN | CALLED).items():
        method = getattr(transformers.Trainer, name, None)
        if method is None:
            found.append(f"Trainer.{name} is gone")
            continue
        seen = tuple(name for name in inspect.signature(method).parameters if name != "self")
        if seen != expected:
            found.append(f"Trainer.{name} takes {seen}, expected {expected}")
    return found


def check() -> None:
    """Stop if a method that is overridden has changed.

    Raises:
        CheckFailed: Naming the methods and the versions known to work.
    """
    found = problems()
    if found:
        raise CheckFailed(
            f"transformers {transformers.__version__} has changed methods that Trainwright builds on: "
            f"{'; '.join(found)}.",
            f"Versions known to work: {KNOWN_TO_WORK}.",
        )

"""The drop-in beside transformers' own Trainer: what scripts rely on stays as it is, what was wrong is right."""

import copy
import math
import random

import numpy as np
import pytest
import torch
import transformers
from torch.nn.functional import cross_entropy
from transformers import TrainerCallback, TrainingArguments

from trainwright.errors import CheckFailed, UserError
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import read_events, steps_of
from trainwright.train import checkpoint, compat, manifest
from trainwright.train.collate import PadRows
from trainwright.train.trainer import Trainer

WORDS, CLASSES = 40, 3


def rows_of(count, seed=0):
    rng = random.Random(seed)
    return [
        {"input_ids": [rng.randrange(5, WORDS) for _ in range(rng.randrange(2, 30))], "labels": rng.randrange(CLASSES)}
        for _ in range(count)
    ]


def bert(dropout=0.1):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=40, num_labels=CLASSES, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def arguments(tmp_path, **changed):
    options = {
        "output_dir": str(tmp_path / "run"),
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "max_steps": 8,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_steps": 3,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
    }
    return TrainingArguments(**(options | changed))


class StopAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.step:
            control.should_save = control.should_training_stop = True


def losses_of(trainer):
    return [(line["step"], line["loss"]) for line in trainer.state.log_history if "loss" in line]


def assert_equal_weights(one, two):
    for (name, a), b in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_the_callers_arguments_are_left_as_they_are(tmp_path):
    args = arguments(tmp_path)
    before = copy.deepcopy(args.to_dict())
    trainer = Trainer(bert(), args, train_dataset=rows_of(20))
    trainer.train()
    assert args.to_dict() == before
    assert trainer.args is not args


def test_a_step_holds_the_rows_of_the_whole_accumulated_batch(tmp_path):
    trainer = Trainer(bert(), arguments(tmp_path, max_steps=-1, num_train_epochs=2), train_dataset=rows_of(20))
    trainer.train()
    assert trainer.state.max_steps == 2 * math.ceil(20 / 8)
    logged = steps_of(read_events(tmp_path / "run" / "journal"), "log")
    assert [event["rows"] for event in logged] == [8, 8, 4, 8, 8, 4]


def test_fp16_without_a_gpu_warns_and_trains_in_fp32(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    half, full = tmp_path / "half", tmp_path / "full"
    with pytest.warns(UserWarning, match="fp16 needs a GPU"):
        one = Trainer(bert(), arguments(half, fp16=True), train_dataset=rows_of(20))
    two = Trainer(bert(), arguments(full), train_dataset=rows_of(20))
    one.train()
    two.train()
    assert_equal_weights(one.model, two.model)


def test_deepspeed_is_refused_with_a_way_out(tmp_path):
    args = arguments(tmp_path)
    args.deepspeed = {"stage": 2}
    with pytest.raises(UserError, match="FSDP"):
        Trainer(bert(), args, train_dataset=rows_of(4))


def test_ragged_rows_train_without_a_collator_and_with_the_callers(tmp_path):
    class Recording:
        widths: list = []

        def __call__(self, rows):
            width = max(len(row["input_ids"]) for row in rows)
            self.widths.append((len(rows), width))
            ids = torch.tensor([row["input_ids"] + [0] * (width - len(row["input_ids"])) for row in rows])
            labels = torch.tensor([row["labels"] for row in rows])
            mask = torch.tensor([[1] * len(r["input_ids"]) + [0] * (width - len(r["input_ids"])) for r in rows])
            return {"input_ids": ids, "attention_mask": mask, "labels": labels}

    own = Trainer(bert(), arguments(tmp_path / "own"), Recording(), rows_of(20), tokens_per_micro_batch=40)
    none = Trainer(
        bert(), arguments(tmp_path / "none"), train_dataset=rows_of(20), tokens_per_micro_batch=40, padding="padded"
    )
    own.train()
    none.train()
    assert_equal_weights(own.model, none.model)
    assert all(count * width <= 40 for count, width in Recording.widths if count > 1)


@pytest.mark.parametrize(("longest", "rows", "budget"), [(30, 2, 2048), (512, 16, 2048)])
def test_without_a_budget_a_micro_batch_on_a_processor_holds_a_few_thousand_tokens(tmp_path, longest, rows, budget):
    trainer = Trainer(bert(), arguments(tmp_path), train_dataset=rows_of(20))
    assert trainer.token_budget(longest, rows) == budget


# -- evaluation ----------------------------------------------------------------------------------------------------


def one_by_one(model, rows):
    model.eval()
    with torch.no_grad():
        return torch.cat([model(torch.tensor([row["input_ids"]])).logits for row in rows])


def test_predictions_come_in_the_order_of_the_rows_and_the_loss_is_the_mean_over_rows(tmp_path):
    rows, model = rows_of(37), bert()
    trainer = Trainer(model, arguments(tmp_path, per_device_eval_batch_size=1), eval_dataset=rows)
    found = trainer.predict(rows)
    expected = one_by_one(model, rows)
    labels = torch.tensor([row["labels"] for row in rows])
    assert np.allclose(found.predictions, expected.numpy(), atol=1e-5)
    assert found.label_ids.tolist() == labels.tolist()
    assert found.metrics["test_loss"] == pytest.approx(float(cross_entropy(expected, labels)), rel=1e-5)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(float(cross_entropy(expected, labels)), rel=1e-5)


def test_compute_metrics_works_unchanged(tmp_path):
    def compute(prediction):
        return {"right": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}

    rows, model = rows_of(37), bert()
    trainer = Trainer(model, arguments(tmp_path), eval_dataset=rows, compute_metrics=compute)
    stock = transformers.Trainer(
        model, arguments(tmp_path), transformers.default_data_collator, eval_dataset=[], compute_metrics=compute
    )
    expected = one_by_one(model, rows).argmax(-1) == torch.tensor([row["labels"] for row in rows])
    assert trainer.evaluate()["eval_right"] == pytest.approx(float(expected.float().mean()))
    assert stock.compute_metrics is compute


def test_token_predictions_are_padded_as_transformers_does_it(tmp_path):
    torch.manual_seed(0)
    config = bert().config
    model = transformers.BertForTokenClassification(config)
    rows = [row | {"labels": [1] * len(row["input_ids"])} for row in rows_of(9)]
    found = Trainer(model, arguments(tmp_path), eval_dataset=rows).predict(rows)
    longest = max(len(row["input_ids"]) for row in rows)
    assert found.predictions.shape == (9, longest, CLASSES)
    for row, labels in zip(rows, found.label_ids, strict=True):
        assert labels.tolist() == row["labels"] + [-100] * (longest - len(row["labels"]))


def test_options_of_the_stock_evaluation_still_work(tmp_path):
    def compute(prediction):
        assert prediction.inputs is not None
        return {"seen": len(prediction.inputs)}

    args = arguments(tmp_path, include_for_metrics=["inputs"])
    assert Trainer(bert(), args, eval_dataset=rows_of(9), compute_metrics=compute).evaluate()["eval_seen"] == 9


# -- resume --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("at", [2, 3, 5])  # inside the first epoch, at its end, inside the second
def test_a_resumed_run_ends_bit_for_bit_as_the_undisturbed_one(tmp_path, at, workers):
    rows = rows_of(20)  # 3 steps an epoch
    whole = Trainer(bert(), arguments(tmp_path / "whole"), train_dataset=rows)
    whole.train()
    options = {"dataloader_num_workers": workers}
    Trainer(bert(), arguments(tmp_path, **options), train_dataset=rows, callbacks=[StopAt(at)]).train()
    resumed = Trainer(bert(), arguments(tmp_path, **options), train_dataset=rows)
    resumed.train(resume_from_checkpoint=True)
    assert resumed.state.global_step == 8
    assert losses_of(resumed) == losses_of(whole)
    assert_equal_weights(resumed.model, whole.model)
    moments = [trainer.optimizer.state_dict()["state"] for trainer in (resumed, whole)]
    for key in moments[1]:
        assert torch.equal(moments[0][key]["exp_avg_sq"], moments[1][key]["exp_avg_sq"])


def test_resume_skips_a_damaged_checkpoint_and_says_why(tmp_path, caplog):
    rows = rows_of(20)
    Trainer(bert(), arguments(tmp_path), train_dataset=rows, callbacks=[StopAt(6)]).train()
    (tmp_path / "run" / "checkpoint-6" / "optimizer.pt").write_bytes(b"half")
    resumed = Trainer(bert(), arguments(tmp_path), train_dataset=rows)
    resumed.train(resume_from_checkpoint=True)
    assert "checkpoint-6" in caplog.text
    assert "optimizer.pt" in caplog.text
    assert [step for step, _loss in losses_of(resumed)] == list(range(1, 9))


def test_a_named_checkpoint_that_is_damaged_is_refused(tmp_path):
    rows = rows_of(20)
    Trainer(bert(), arguments(tmp_path), train_dataset=rows, callbacks=[StopAt(3)]).train()
    folder = tmp_path / "run" / "checkpoint-3"
    (folder / "scheduler.pt").unlink()
    with pytest.raises(CheckFailed, match=r"scheduler\.pt is missing"):
        Trainer(bert(), arguments(tmp_path), train_dataset=rows).train(resume_from_checkpoint=str(folder))


def test_transformers_can_resume_ours_and_we_can_resume_theirs(tmp_path):
    rows = rows_of(20)
    collator = PadRows(pad_id=0)
    Trainer(bert(), arguments(tmp_path / "ours"), train_dataset=rows, callbacks=[StopAt(3)]).train()
    stock = transformers.Trainer(bert(), arguments(tmp_path / "ours"), collator, train_dataset=rows)
    stock.train(resume_from_checkpoint=True)
    assert stock.state.global_step == 8

    transformers.Trainer(
        bert(), arguments(tmp_path / "theirs"), collator, train_dataset=rows, callbacks=[StopAt(3)]
    ).train()
    theirs = tmp_path / "theirs" / "run" / "checkpoint-3"
    assert checkpoint.problem_of(theirs) is None
    assert not manifest.is_verified(theirs)
    ours = Trainer(bert(), arguments(tmp_path / "theirs"), train_dataset=rows)
    ours.train(resume_from_checkpoint=True)
    assert ours.state.global_step == 8


# -- folder, layers, compatibility -----------------------------------------------------------------------------------


def test_the_output_folder_is_a_run_folder(tmp_path):
    Trainer(bert(), arguments(tmp_path), train_dataset=rows_of(20)).train()
    folder = RunFolder(tmp_path / "run")
    assert folder.status().state == "finished"
    assert (folder.status().step, folder.status().steps) == (8, 8)
    logged = steps_of(read_events(folder.journal), "log")
    assert [event["step"] for event in logged] == list(range(1, 9))
    assert all(0 < event["real_tokens"] <= event["padded_tokens"] for event in logged)
    assert folder.checkpoints == folder.path


def test_nothing_is_written_before_training_begins(tmp_path):
    Trainer(bert(), arguments(tmp_path), train_dataset=rows_of(20))
    assert not (tmp_path / "run" / "journal").exists()


def test_the_best_and_the_last_checkpoint_stay_whatever_the_limit(tmp_path):
    args = arguments(
        tmp_path, save_steps=2, eval_steps=2, eval_strategy="steps", save_total_limit=1, metric_for_best_model="loss",
        load_best_model_at_end=True, learning_rate=1.0,
    )  # fmt: skip
    trainer = Trainer(bert(), args, train_dataset=rows_of(20), eval_dataset=rows_of(20, seed=1))
    trainer.train()
    kept = {folder.name for folder in checkpoint.list_checkpoints(tmp_path / "run")}
    assert kept == {"checkpoint-8", f"checkpoint-{trainer.state.best_global_step}"}


def test_layer_wise_rates_reach_the_optimizer_and_follow_the_schedule(tmp_path):
    trainer = Trainer(bert(), arguments(tmp_path, max_steps=2), train_dataset=rows_of(20), layerwise_lr_decay=0.5)
    trainer.train()
    rates = {group["name"]: group["initial_lr"] for group in trainer.optimizer.param_groups}
    assert rates == pytest.approx({"head": 1e-3, "layer 2": 5e-4, "layer 1": 2.5e-4, "embeddings": 1.25e-4}, rel=1e-9)
    assert type(trainer.optimizer.optimizer) is torch.optim.AdamW
    assert trainer.optimizer.optimizer.defaults["fused"] is True


def test_every_method_that_is_overridden_has_the_signature_we_expect():
    assert compat.problems() == []


def test_every_overridden_method_is_listed():
    parts = Trainer.__mro__[: Trainer.__mro__.index(transformers.Trainer)]
    names = {name for part in parts for name in vars(part) if not name.startswith("__")}
    ours = {name for name in names if callable(getattr(Trainer, name))}
    theirs = set(dir(transformers.Trainer))
    assert ours & theirs == set(compat.OVERRIDDEN)


def test_a_changed_method_stops_with_the_versions_known_to_work(tmp_path, monkeypatch):
    def training_step(self, model, inputs): ...

    monkeypatch.setattr(transformers.Trainer, "training_step", training_step)
    with pytest.raises(CheckFailed, match=r"training_step .*known to work: transformers >=5\.17,<6"):
        Trainer(bert(), arguments(tmp_path), train_dataset=rows_of(4))

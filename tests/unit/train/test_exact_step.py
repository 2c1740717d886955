"""The gradient of a cut step against a hand-written loop that knows no Trainer: float64, equal to 1e-12."""

import math
import random
import warnings

import pytest
import torch
import transformers
from torch.nn.functional import cross_entropy
from transformers import TrainerCallback, TrainingArguments

from trainwright.train.seeds import shuffled
from trainwright.train.trainer import Trainer

ROWS, BATCH, CLASSES, WORDS = 22, 8, 3, 40  # 22 rows in steps of 8: the last step of an epoch has 6
CONFIG = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "num_labels": CLASSES,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
EVERYTHING = 10**9


def ragged_rows(task):
    rng = random.Random(3)
    rows = []
    for number in range(ROWS):
        ids = [rng.randrange(5, WORDS) for _ in range(rng.randrange(2, 40))]
        if task == "text":
            labels = number % CLASSES if number % 5 else 0  # uneven classes
        elif task == "regression":
            labels = rng.random()
        else:  # one label a token; more than half are left out, unevenly, in some rows all of them
            kept = rng.random() if number % 4 else 0.0
            labels = [
                rng.randrange(CLASSES if task == "token" else WORDS) if rng.random() < kept else -100 for _ in ids
            ]
            labels = ids if task == "causal" else labels
        rows.append({"input_ids": ids, "labels": labels})
    return rows


def padded(rows, pad=0):
    """Hand-made padding: input ids, mask and labels of a whole step."""
    width = max(len(row["input_ids"]) for row in rows)
    ids = torch.tensor([row["input_ids"] + [pad] * (width - len(row["input_ids"])) for row in rows])
    mask = torch.tensor([[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows])
    labels = [row["labels"] for row in rows]
    if isinstance(labels[0], list) and not isinstance(labels[0][0], float):
        labels = [one + [-100] * (width - len(one)) for one in labels]
    return ids, mask, torch.tensor(labels)


def make_model(task, family="Bert"):
    torch.manual_seed(0)
    if task == "causal":
        config = transformers.GPT2Config(
            vocab_size=WORDS, n_embd=16, n_layer=2, n_head=2, n_positions=64, embd_pdrop=0, attn_pdrop=0, resid_pdrop=0,
            bos_token_id=1, eos_token_id=1,
        )  # fmt: skip
        return transformers.GPT2LMHeadModel(config).double()
    head = {"text": "SequenceClassification", "token": "TokenClassification", "masked": "MaskedLM"}
    head["regression"] = "SequenceClassification"
    config = CONFIG | ({"num_labels": 1} if task == "regression" else {})
    if family == "Roberta":
        config |= {"pad_token_id": 0}
    made = getattr(transformers, f"{family}For{head[task]}")(getattr(transformers, f"{family}Config")(**config))
    return made.double()


class Gradients(TrainerCallback):
    def __init__(self):
        self.steps = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        self.steps.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])


def trainer_steps(tmp_path, model, rows, budget, steps=5, **named):
    seen = Gradients()
    options = {"label_smoothing_factor": named.pop("label_smoothing_factor", 0.0)}
    args = TrainingArguments(
        output_dir=str(tmp_path / "run"), per_device_train_batch_size=2, gradient_accumulation_steps=BATCH // 2,
        max_steps=steps, learning_rate=0.1, optim="sgd", lr_scheduler_type="constant", max_grad_norm=0.0,
        logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=7, **options,
    )  # fmt: skip
    trainer = named.pop("kind", Trainer)(
        model, args, train_dataset=rows, tokens_per_micro_batch=budget, callbacks=[seen], **named
    )
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    norms = [line["grad_norm"] for line in trainer.state.log_history if "grad_norm" in line]
    return seen.steps, losses, norms


def hand_loop(model, rows, loss_of, steps=5):
    """Plain PyTorch: whole padded batches, torch's mean, SGD by hand."""
    gradients, losses, norms = [], [], []
    per_epoch = math.ceil(ROWS / BATCH)
    model.train()
    for step in range(steps):
        order = shuffled(ROWS, 7, step // per_epoch)
        place = step % per_epoch
        batch = [rows[index] for index in order[place * BATCH : (place + 1) * BATCH]]
        model.zero_grad()
        loss = loss_of(model, *padded(batch))
        loss.backward()
        grads = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        gradients.append(grads)
        losses.append(loss.item())
        norms.append(math.sqrt(sum(float((grad**2).sum()) for grad in grads)))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.1 * parameter.grad
    return gradients, losses, norms


def assert_same(seen, expected, tolerance=1e-12):
    for ours, theirs in zip(seen[0], expected[0], strict=True):
        difference = math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(ours, theirs, strict=True)))
        size = math.sqrt(sum(float((b**2).sum()) for b in theirs))
        assert difference <= tolerance * size
    assert seen[1] == pytest.approx(expected[1], rel=1e-6)  # transformers adds losses up in fp32 for its log
    assert seen[2] == pytest.approx(expected[2], rel=max(1e-6, 10 * tolerance))


def logits(model, ids, mask):
    return model(input_ids=ids, attention_mask=mask).logits


LOSSES = {
    "text": lambda model, ids, mask, labels: cross_entropy(logits(model, ids, mask), labels),
    "token": lambda model, ids, mask, labels: cross_entropy(logits(model, ids, mask).flatten(0, 1), labels.flatten()),
    "masked": lambda model, ids, mask, labels: cross_entropy(logits(model, ids, mask).flatten(0, 1), labels.flatten()),
    "causal": lambda model, ids, mask, labels: cross_entropy(
        logits(model, ids, mask)[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    ),
    "regression": lambda model, ids, mask, labels: ((logits(model, ids, mask)[:, 0] - labels) ** 2).mean(),
}


@pytest.mark.parametrize("budget", [EVERYTHING, 200, 64, 1])
@pytest.mark.parametrize(("task", "padding"), [*((task, "padded") for task in sorted(LOSSES)), ("text", "auto")])
def test_gradient_loss_and_norm_are_those_of_the_uncut_batch(tmp_path, task, padding, budget):
    rows = ragged_rows(task)
    if task == "regression":
        rows = [row | {"labels": torch.tensor(row["labels"], dtype=torch.float64)} for row in rows]
    seen = trainer_steps(tmp_path, make_model(task), rows, budget, padding=padding)
    # transformers computes the next-token loss in fp32 whatever the model is, so no cut can be closer than that
    assert_same(seen, hand_loop(make_model(task), rows, LOSSES[task]), 1e-6 if task == "causal" else 1e-12)


@pytest.mark.parametrize("budget", [EVERYTHING, 64, 1])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_class_weights_divide_by_the_weights_of_the_targets(tmp_path, budget, smoothing):
    weights = [0.2, 1.0, 3.5]
    rows = ragged_rows("text")

    def loss(model, ids, mask, labels):
        values = torch.log_softmax(logits(model, ids, mask), dim=-1)  # written out: no cross_entropy of torch
        weight = torch.tensor(weights, dtype=torch.float64)
        right = -(weight[labels] * values[range(len(labels)), labels]).sum()
        smooth = -(values * weight).sum() / CLASSES
        return ((1 - smoothing) * right + smoothing * smooth) / weight[labels].sum()

    seen = trainer_steps(
        tmp_path, make_model("text"), rows, budget, class_weights=weights, label_smoothing_factor=smoothing
    )
    assert_same(seen, hand_loop(make_model("text"), rows, loss))


@pytest.mark.parametrize("budget", [EVERYTHING, 64, 1])
@pytest.mark.parametrize("weights", [None, [0.2, 1.0, 3.5]])
def test_focal_loss_is_that_of_the_paper_over_the_weights_of_the_targets(tmp_path, budget, weights):
    def loss(model, ids, mask, labels):
        right = torch.softmax(logits(model, ids, mask), dim=-1)[range(len(labels)), labels]
        weight = torch.tensor(weights or [1.0] * CLASSES, dtype=torch.float64)[labels]
        return -(weight * (1 - right) ** 2 * torch.log(right)).sum() / weight.sum()

    rows = ragged_rows("text")
    seen = trainer_steps(tmp_path, make_model("text"), rows, budget, class_weights=weights, focal_gamma=2.0)
    assert_same(seen, hand_loop(make_model("text"), rows, loss))


@pytest.mark.parametrize("budget", [EVERYTHING, 64, 1])
@pytest.mark.parametrize(("weights", "gamma"), [(None, 0.0), ([0.5, 1.0, 4.0], 0.0), (None, 2.0), ([0.5, 1, 4], 2.0)])
def test_sets_of_labels_are_learnt_label_by_label(tmp_path, budget, weights, gamma):
    rng = random.Random(5)
    rows = [
        row | {"labels": torch.tensor([float(rng.random() < 0.4) for _ in range(CLASSES)], dtype=torch.float64)}
        for row in ragged_rows("text")
    ]

    def loss(model, ids, mask, labels):
        labels = labels.double()
        likely = torch.sigmoid(logits(model, ids, mask))
        weight = torch.tensor(weights or [1.0] * CLASSES, dtype=torch.float64)
        there = -weight * labels * (1 - likely) ** gamma * torch.log(likely)
        absent = -(1 - labels) * likely**gamma * torch.log(1 - likely)
        return (there + absent).mean()

    def model():
        made = make_model("text")
        made.config.problem_type = "multi_label_classification"
        return made

    seen = trainer_steps(tmp_path, model(), rows, budget, class_weights=weights, focal_gamma=gamma)
    as_lists = [row | {"labels": row["labels"].tolist()} for row in rows]
    assert_same(seen, hand_loop(model(), as_lists, loss))


@pytest.mark.parametrize("task", ["text", "token"])
def test_label_smoothing_is_torchs(tmp_path, task):
    def loss(model, ids, mask, labels):
        flat = logits(model, ids, mask).reshape(-1, CLASSES)
        return cross_entropy(flat, labels.flatten(), label_smoothing=0.1)

    seen = trainer_steps(tmp_path, make_model(task), ragged_rows(task), 64, label_smoothing_factor=0.1)
    assert_same(seen, hand_loop(make_model(task), ragged_rows(task), loss))


class OwnLoss(Trainer):
    """As users write it: a mean over the examples of the batch."""

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        values = (1 - torch.softmax(outputs.logits, dim=-1)[range(len(inputs["labels"])), inputs["labels"]]) ** 2
        loss = values.mean()
        return (loss, outputs) if return_outputs else loss


def own_loss(model, ids, mask, labels):
    return ((1 - torch.softmax(logits(model, ids, mask), dim=-1)[range(len(labels)), labels]) ** 2).mean()


@pytest.mark.parametrize("budget", [EVERYTHING, 64, 1])
def test_an_overridden_loss_is_weighted_by_examples(tmp_path, budget):
    seen = trainer_steps(tmp_path, make_model("text"), ragged_rows("text"), budget, kind=OwnLoss)
    assert_same(seen, hand_loop(make_model("text"), ragged_rows("text"), own_loss))


@pytest.mark.parametrize("divides", ["by the number of items", "by nothing, a mean"])
def test_a_loss_function_of_the_caller_is_exact_whether_or_not_it_uses_the_number_of_items(tmp_path, divides):
    def loss_function(outputs, labels, num_items_in_batch=None):
        flat = outputs.logits.reshape(-1, CLASSES)
        if divides == "by nothing, a mean":
            return cross_entropy(flat, labels.flatten())
        return cross_entropy(flat, labels.flatten(), reduction="sum") / num_items_in_batch

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # it must be cut, not refused
        seen = trainer_steps(tmp_path, make_model("token"), ragged_rows("token"), 64, compute_loss_func=loss_function)
    assert_same(seen, hand_loop(make_model("token"), ragged_rows("token"), LOSSES["token"]))


class Contrast(Trainer):
    """In-batch negatives: each example's loss depends on the others."""

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        vectors = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
        loss = cross_entropy(vectors @ vectors.T, torch.arange(len(vectors)))
        return (loss, {}) if return_outputs else loss


def test_a_loss_that_couples_examples_refuses_cutting_and_says_so(tmp_path):
    def loss(model, ids, mask, labels):
        vectors = logits(model, ids, mask)
        return cross_entropy(vectors @ vectors.T, torch.arange(len(vectors)))

    with pytest.warns(UserWarning, match="runs uncut"):
        seen = trainer_steps(tmp_path, make_model("text"), ragged_rows("text"), 1, kind=Contrast)
    assert_same(seen, hand_loop(make_model("text"), ragged_rows("text"), loss))


def test_batch_statistics_refuse_cutting(tmp_path):
    model = make_model("text")
    model.classifier = torch.nn.Sequential(torch.nn.BatchNorm1d(16), torch.nn.Linear(16, CLASSES)).double()
    with pytest.warns(UserWarning, match="BatchNorm1d"):
        trainer_steps(tmp_path, model, ragged_rows("text"), 1, steps=1)

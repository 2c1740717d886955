import pytest

from trainwright.errors import MachineError
from trainwright.machine.madeup import made_up
from trainwright.model.unpad import choose_batches
from trainwright.plan.choose import make_plan, of_steps
from trainwright.recipe.load import load_recipe
from trainwright.records import Prepared, Split


def prepared(train=1000, validation=100, max_length=128):
    splits = {"train": Split("train", train, train * 30, "t", "x")}
    if validation:
        splits["validation"] = Split("validation", validation, validation * 30, "v", "x")
    return Prepared("c", "k", False, "", splits, ["a", "b"], max_length, [1], [2], 0, {}, {})


@pytest.fixture
def plan(tmp_path):
    def make(*sets, machine="cpu-bf16", **data):
        path = tmp_path / "recipe.yaml"
        path.write_text("model: x\ndata: {train: a.csv}\n")
        values = load_recipe(path, sets).values
        return make_plan(values, prepared(**data), made_up(machine))

    return make


def test_steps_follow_from_rows_batch_and_epochs(plan):
    made, _values = plan("learn.batch_size=32", "learn.num_train_epochs=3")
    assert (made.steps_per_epoch, made.steps) == (32, 96)  # 1000 rows in steps of 32: 31.25, so 32


def test_a_part_of_an_epoch_and_a_number_of_steps_are_possible(plan):
    assert plan("learn.num_train_epochs=0.5")[0].steps == 16
    assert plan("learn.max_steps=7")[0].steps == 7


@pytest.mark.parametrize(("asked", "steps"), [("6%", 6), ("0%", 0), ("1%", 1), ("30", 30), ("0", 0)])
def test_warm_up_is_a_number_of_steps_or_a_share_of_them(plan, asked, steps):
    assert plan(f"learn.warmup_steps={asked}", "learn.num_train_epochs=3.125")[0].warmup_steps == steps
    assert of_steps("10%", 5) == 1


def test_what_is_chosen_carries_its_reason_and_what_was_asked_for_is_kept(plan):
    _made, values = plan("learn.warmup_steps=6%")
    assert values["learn.warmup_steps"].origin == "--set"
    for name in ("run.precision", "run.device", "learn.eval_steps", "run.tokens_per_micro_batch", "run.rehearse"):
        assert values[name].origin == "chosen"
        assert values[name].because


def test_automatic_evaluations_take_at_most_a_tenth_of_the_training_time(plan):
    made, _values = plan("learn.num_train_epochs=100", train=10_000, validation=10_000)
    # an evaluation is a third of the work of training on as many rows
    assert 0.1 * made.eval_steps * 32 >= 10_000 / 3


def test_a_step_is_cut_smaller_on_a_processor_than_on_a_card_and_holds_the_longest_row(plan):
    assert plan(machine="a100-80g")[0].tokens_per_micro_batch > plan()[0].tokens_per_micro_batch
    assert plan(max_length=4096)[0].tokens_per_micro_batch == 4096


def test_the_rehearsal_is_short_off_or_a_share_of_the_rows(plan):
    assert plan("run.rehearse=off")[0].rehearsal_steps == 0
    assert plan("run.rehearse=10%")[0].rehearsal_steps == 4  # 100 rows in steps of 32
    assert plan("run.rehearse=9")[0].rehearsal_steps == 9
    assert plan("learn.num_train_epochs=1000")[0].rehearsal_steps == 50
    assert plan("learn.max_steps=2")[0].rehearsal_steps == 2


def test_a_plan_made_again_from_its_own_values_is_the_same(plan):
    made, values = plan()
    assert make_plan(values, prepared(), made_up("cpu-bf16"))[0] == made


def test_a_machine_without_a_card_refuses_one_that_is_asked_for(plan):
    with pytest.raises(MachineError):
        plan("run.device=cuda")


def test_batches_are_packed_where_the_model_is_exact_that_way_and_a_users_word_holds(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("model: x\ndata: {train: a.csv}\n")

    def batches(kind, *sets, pooling="cls"):
        asked = choose_batches(kind, "row", pooling)
        return make_plan(load_recipe(path, sets).values, prepared(), made_up("cpu-bf16"), asked)[1]["run.batches"]

    assert batches("bert").value == "packed"
    for kind, pooling, word in (
        ("deberta-v2", "cls", "deberta-v2"),
        ("gpt2", "cls", "last"),
        ("modernbert", "mean", "mean"),
    ):
        choice = batches(kind, pooling=pooling)
        assert (choice.value, choice.origin) == ("padded", "chosen")
        assert word in choice.because
    assert batches("bert", "run.batches=padded").origin == "--set"

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.train import checkpoint, manifest

FILES = {
    "model.safetensors": b"weights" * 50,
    "optimizer.pt": b"moments" * 50,
    "scheduler.pt": b"rate",
    "rng_state.pth": b"random",
    "trainer_state.json": b"written by save()",
    "training_args.bin": b"a pickle",
}


def save(root, step):
    staged = checkpoint.Staged(root, step)
    for name, content in FILES.items():
        (staged.checkpoint / name).write_bytes(content)
    (staged.checkpoint / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    staged.publish()
    return root / f"checkpoint-{step}"


def test_a_published_checkpoint_is_whole_lists_its_files_and_leaves_no_staging(tmp_path):
    folder = save(tmp_path, 5)
    assert checkpoint.problem_of(folder) is None
    assert manifest.is_verified(folder)
    listed = json.loads((folder / "manifest.json").read_text())["files"]
    assert set(listed) == set(FILES) - {"training_args.bin"} | {"trainwright.json"}
    # from `printf rate | sha256sum`
    sha256 = "c549779d79e5c8e9c9a6b6da5f1c5e21075eb9319852f858acb227ee855e4ef5"
    assert listed["scheduler.pt"] == {"bytes": 4, "sha256": sha256}
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-5"]


def test_a_pickle_that_may_hold_tokens_is_left_out(tmp_path):
    assert not (save(tmp_path, 5) / "training_args.bin").exists()


def test_what_is_staged_but_not_published_is_not_seen(tmp_path):
    save(tmp_path, 5)
    staged = checkpoint.Staged(tmp_path, 10)
    (staged.checkpoint / "model.safetensors").write_bytes(b"half")
    assert checkpoint.newest_whole(tmp_path) == (tmp_path / "checkpoint-5", [])


@pytest.mark.parametrize("name", sorted(set(FILES) - {"training_args.bin"}))
@pytest.mark.parametrize("damage", ["missing", "cut", "flipped", "empty"])
def test_damage_is_named_and_the_older_whole_checkpoint_is_taken(tmp_path, name, damage):
    older, newer = save(tmp_path, 5), save(tmp_path, 10)
    path = newer / name
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "flipped":
        content[0] ^= 1
        path.write_bytes(content)
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
    found, skipped = checkpoint.newest_whole(tmp_path)
    assert found == older
    assert [folder for folder, _reason in skipped] == [newer]
    assert name in skipped[0][1]


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{}", '{"files": {}}', '{"format": 2, "step": 5, "files": {}}', '{"files": {"model.saf', "7"],
)
def test_a_manifest_that_lists_nothing_is_a_problem_not_a_crash(tmp_path, text):
    folder = save(tmp_path, 5)
    (folder / "manifest.json").write_text(text)
    assert "manifest.json" in checkpoint.problem_of(folder)
    assert not manifest.is_verified(folder)


def test_a_lost_manifest_is_not_taken_for_a_checkpoint_of_transformers(tmp_path):
    folder = save(tmp_path, 5)
    (folder / "manifest.json").unlink()
    assert checkpoint.problem_of(folder) == "manifest.json is missing"


def test_no_bit_of_the_manifest_can_change_unseen(tmp_path):
    folder = save(tmp_path, 5)
    path = folder / "manifest.json"
    good = path.read_bytes()
    unseen = []
    for bit in range(0, 8 * len(good), 5):  # coprime to 8: every place of a byte, in every part of the file
        content = bytearray(good)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        if "manifest.json" not in (checkpoint.problem_of(folder) or ""):
            unseen.append(bit)
    assert unseen == []


@pytest.mark.parametrize("name", sorted(set(FILES) - {"training_args.bin"} | {"trainwright.json"}))
def test_a_file_gone_from_folder_and_list_alike_is_missed(tmp_path, name):
    folder = save(tmp_path, 5)
    listed = json.loads((folder / "manifest.json").read_text())
    del listed["files"][name]
    (folder / "manifest.json").write_text(json.dumps(listed))
    assert checkpoint.problem_of(folder) == "manifest.json is damaged"
    (folder / name).unlink()
    manifest.write_manifest(folder, 5)  # right about itself, and not enough
    assert checkpoint.problem_of(folder) == f"{name} is missing in manifest.json"


def test_a_shard_of_the_weights_that_the_index_names_is_missed(tmp_path):
    folder = save(tmp_path, 5)
    (folder / "manifest.json").unlink()
    (folder / "trainwright.json").unlink()
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors").rename(folder / shards["a"])
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    assert checkpoint.problem_of(folder) == f"{shards['b']} is missing"
    (folder / shards["b"]).write_bytes(b"more weights")
    assert checkpoint.problem_of(folder) is None


@pytest.mark.parametrize("ours", [True, False])
def test_a_renamed_folder_is_not_taken_for_another_step(tmp_path, ours):
    folder = save(tmp_path, 5)
    if not ours:
        (folder / "manifest.json").unlink()
        (folder / "trainwright.json").unlink()
    renamed = folder.rename(tmp_path / "checkpoint-9")
    assert "is that of step 5" in checkpoint.problem_of(renamed)


def test_a_checkpoint_with_a_manifest_of_the_first_format_is_still_whole(tmp_path):
    folder = save(tmp_path, 5)
    listed = json.loads((folder / "manifest.json").read_text())["files"]
    del listed["trainwright.json"]
    (folder / "trainwright.json").unlink()
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "files": listed}))
    assert checkpoint.problem_of(folder) is None
    assert "is that of step 5" in checkpoint.problem_of(folder.rename(tmp_path / "checkpoint-9"))


def test_a_checkpoint_of_transformers_passes_unverified_if_nothing_needed_is_missing(tmp_path):
    folder = save(tmp_path, 5)
    (folder / "manifest.json").unlink()
    (folder / "trainwright.json").unlink()
    assert checkpoint.problem_of(folder) is None
    assert not manifest.is_verified(folder)
    (folder / "scheduler.pt").unlink()
    assert checkpoint.problem_of(folder) == "scheduler.pt is missing"


def test_what_a_callback_adds_later_is_no_damage(tmp_path):
    folder = save(tmp_path, 5)
    (folder / "note.txt").write_text("mine")
    assert checkpoint.problem_of(folder) is None


def test_order_is_by_step_number_whatever_the_file_times_say(tmp_path):
    for step in (9, 10, 100):
        save(tmp_path, step)
    os.utime(tmp_path / "checkpoint-9", (2e9, 2e9))  # "in the future"
    assert [folder.name for folder in checkpoint.list_checkpoints(tmp_path)] == [
        "checkpoint-9",
        "checkpoint-10",
        "checkpoint-100",
    ]
    assert checkpoint.newest_whole(tmp_path)[0] == tmp_path / "checkpoint-100"


def test_rotation_keeps_the_newest_and_the_best_even_with_a_limit_of_one(tmp_path):
    for step in (5, 10, 15, 20):
        save(tmp_path, step)
    deleted = checkpoint.rotate(tmp_path, keep=1, best_step=5)
    assert {folder.name for folder in deleted} == {"checkpoint-10", "checkpoint-15"}


def test_saving_a_step_again_replaces_it(tmp_path):
    save(tmp_path, 5)
    folder = save(tmp_path, 5)
    assert checkpoint.problem_of(folder) is None


@given(st.sets(st.integers(1, 500), min_size=1, max_size=20), st.integers(0, 8), st.integers(1, 500))
def test_any_history_keeps_newest_best_and_the_number_asked_for(steps, keep, best):
    deleted = checkpoint.to_delete(list(steps), keep, best)
    kept = steps - deleted
    assert max(steps) in kept
    assert best in kept or best not in steps
    if keep == 0:
        assert kept == steps
    else:
        protected = {max(steps)} | ({best} & steps)
        assert len(kept) == min(len(steps), max(keep, len(protected)))
        assert all(one in protected or all(one > gone for gone in deleted) for one in kept)


def test_a_broken_folder_of_a_higher_step_does_not_cost_the_checkpoint_just_saved(tmp_path):
    for step in (5, 9):
        (tmp_path / f"checkpoint-{step}").mkdir()
    checkpoint.rotate(tmp_path, keep=1, best_step=None, saved_step=5)
    assert (tmp_path / "checkpoint-5").is_dir()

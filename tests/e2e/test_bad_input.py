"""What a user gets wrong ends with one clear sentence and exit code 2, before any training and without a traceback."""

import pytest

CASES = {
    "missing file": ({}, "train: {train}", "train: {folder}/revews.csv", ["revews.csv", "reviews.csv"]),
    "wrong column": ({}, "text: text", "text: txt", ["txt", "text", "label"]),
    "one class only": ({"label": ["good"] * 6}, "", "", ["one class", "good"]),
    "empty file": ({"text": [], "label": []}, "", "", ["reviews.csv"]),
    "misspelt key": ({}, "learning_rate", "learning_rte", ["learning_rte", "learning_rate"]),
    "no such model": ({}, "model: {model}", "model: ./nowhere", ["nowhere"]),
    "fp16 without a GPU": ({}, "precision: fp32", "precision: fp16", ["fp16"]),
    "value out of range": ({}, "batch_size: 16", "batch_size: 0", ["batch_size", "0"]),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_mistake_ends_with_a_sentence_and_exit_code_2(case, tmp_path, recipe, trainwright, reviews_csv, tiny_bert):
    columns, before, after, expected = CASES[case]
    if columns:
        columns = {"text": [f"text {number}" for number in range(len(columns["label"]))]} | columns
        lines = ["text,label", *(",".join(row) for row in zip(columns["text"], columns["label"], strict=True))]
        reviews_csv.write_text("\n".join(lines) + "\n")
    names = {"train": reviews_csv, "folder": reviews_csv.parent, "model": tiny_bert}
    path = recipe()
    if before:
        text = path.read_text()
        assert before.format(**names) in text
        path.write_text(text.replace(before.format(**names), after.format(**names)))
    done = trainwright("train", path, "--runs", tmp_path / "runs", expect=2)
    assert "Traceback" not in done.stdout + done.stderr
    for word in expected:
        assert word in done.stderr, done.stderr
    assert not list((tmp_path / "runs").glob("*/checkpoints/checkpoint-*"))


def test_a_label_in_validation_that_train_lacks_is_named_with_file_and_line(tmp_path, recipe, trainwright):
    (tmp_path / "validation.csv").write_text("text,label\nthe lamp was superb,good\nso so,middling\n")
    path = recipe()
    path.write_text(path.read_text().replace("validation: 20%", "validation: validation.csv"))
    done = trainwright("train", path, "--runs", tmp_path / "runs", expect=2)
    assert "middling" in done.stderr
    assert "validation.csv" in done.stderr
    assert "3" in done.stderr


def test_a_refused_run_says_why_in_its_status_and_has_a_report(tmp_path, recipe, trainwright):
    path = recipe()
    path.write_text(path.read_text().replace("text: text", "text: txt"))
    trainwright("train", path, "--runs", tmp_path / "runs", expect=2)
    from running import only_run

    folder = only_run(tmp_path / "runs")
    assert folder.status().state == "refused"
    assert "txt" in folder.status().because
    assert folder.report.exists()


def test_a_misspelt_command_or_option_is_explained(trainwright):
    assert "trian" in trainwright("trian", expect=2).stderr
    assert "--sett" in trainwright("train", "x.yaml", "--sett", "a=b", expect=2).stderr

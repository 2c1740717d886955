import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from trainwright.data.prepare import find_prepared, prepare
from trainwright.data.store import TokenRows
from trainwright.errors import DataError, ModelError


def quiet(done, total, unit):
    pass


def rows_of(preparation, split="train", kind="class"):
    prepared = preparation.prepared
    return TokenRows(Path(prepared.folder), prepared.splits[split], prepared, kind)


@pytest.fixture
def made(tmp_path):
    """Prepares a request in a cache of this test."""
    return lambda request: prepare(request, tmp_path / "cache", quiet)


@pytest.mark.parametrize("family", ["word_pieces", "byte_pairs"])
def test_what_is_read_is_what_the_tokenizer_gives_at_any_length(family, request, tmp_path, write_table, request_data):
    from transformers import AutoTokenizer

    folder = request.getfixturevalue(family)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    draw = random.Random(0)
    alphabet = ["the", "good", "bad", "film", "你好", "☃", "3.5", "zz", "'", '"', ",", ".", "!\n\t", "[SEP]", "</s>"]
    texts = [" ".join(draw.choices(alphabet, k=draw.randrange(1, 40))) for _row in range(300)]
    file = write_table("a.csv", [(text, "ab"[place % 2]) for place, text in enumerate(texts)])
    for length in (8, 9, 16, 33, 64, 512):
        asked = request_data(file, model_folder=str(folder), max_length=length)
        rows = rows_of(prepare(asked, tmp_path / "cache", quiet))
        expected = [tokenizer(text, truncation=True, max_length=length)["input_ids"] for text in texts]
        assert [rows[n]["input_ids"] for n in range(300)] == expected
        assert rows.lengths.tolist() == list(map(len, expected))


def test_a_prepared_set_says_all_that_training_needs(write_table, request_data, made, many_reviews):
    file = write_table("reviews.csv", many_reviews)
    test = write_table("test.csv", [("good film", "pos"), ("bad film", "neg"), ("", "pos")])
    found = made(request_data(file, validation="10%", test=test, max_length=6))
    prepared = found.prepared
    assert {name: (split.rows, split.source) for name, split in prepared.splits.items()} == {
        "train": (360, "reviews.csv"),
        "validation": (40, "10% held out of reviews.csv"),
        "test": (3, "test.csv"),
    }
    assert prepared.labels == ["neg", "pos"]
    assert prepared.label_rows == {"train": [144, 216], "validation": [16, 24], "test": [1, 2]}
    assert (prepared.prefix, prepared.suffix, prepared.pad_id, prepared.max_length) == ([2], [3], 0, 6)
    for name, split in prepared.splits.items():
        rows = rows_of(found, name)
        assert split.tokens == rows.lengths.sum() == sum(len(rows[n]["input_ids"]) for n in range(len(rows)))
        assert sum(count for _length, count in prepared.lengths[name]) == split.rows
    assert prepared.lengths["test"] == [[2, 1], [4, 2]]


def test_the_splits_of_a_file_hold_each_row_once_with_its_text_label_and_line(
    write_table, request_data, made, many_reviews
):
    found = made(request_data(write_table("a.csv", many_reviews), validation="10%", test="20%"))
    seen = {}
    for split, count in [("train", 280), ("validation", 40), ("test", 80)]:
        rows = rows_of(found, split)
        assert len(rows) == count
        for place in range(len(rows)):
            label = found.prepared.labels[rows[place]["labels"]]
            seen[int(rows.lines[place])] = (rows.text(place), label)
    assert [seen[line] for line in sorted(seen)] == many_reviews


def test_a_second_start_is_cached_with_the_same_audit_and_rows(tmp_path, write_table, request_data, made, many_reviews):
    asked = request_data(write_table("a.csv", [*many_reviews, ("", "pos")]), validation="10%")
    first = made(asked)
    found = find_prepared(asked, tmp_path / "cache")
    assert not first.prepared.cached
    assert found.preparation.prepared.cached
    assert found.because == found.preparation.prepared.because
    assert found.because.startswith("same content, tokenizer and options")
    assert found.preparation.audit == first.audit
    assert found.preparation.choices == first.choices
    unlike = {"cached", "because"}
    plain = [{k: v for k, v in asdict(item.prepared).items() if k not in unlike} for item in (first, found.preparation)]
    assert plain[0] == plain[1]


def test_a_cached_start_imports_nothing_heavy(tmp_path, write_table, request_data, made, many_reviews):
    asked = request_data(write_table("a.csv", many_reviews))
    made(asked)
    code = (
        "import sys, json\n"
        "from pathlib import Path\n"
        "from trainwright.data.prepare import find_prepared\n"
        "from trainwright.data.request import DataRequest\n"
        "asked = json.loads(sys.argv[1])\n"
        "found = find_prepared(DataRequest(**asked), Path(sys.argv[2]))\n"
        "assert found.preparation is not None\n"
        "print(sorted({'torch', 'transformers', 'datasets', 'tokenizers', 'pyarrow'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", code, json.dumps(asdict(asked)), str(tmp_path / "cache")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_automatic_length_is_a_choice_with_its_reason_and_an_asked_one_is_none(write_table, request_data, made):
    words = " ".join(["film"] * 30)
    file = write_table("a.csv", [(f"{words} {n % 7}", "ab"[n % 2]) for n in range(200)])
    choice = made(request_data(file)).choices["data.max_length"]
    assert (choice.value, choice.origin) == (40, "chosen")
    assert choice.because == "99% of the training rows have at most 33 tokens"
    assert made(request_data(file, max_length=40)).choices == {}


def test_truncation_facts_follow_the_length_in_force_without_new_tokenising(write_table, request_data, made):
    file = write_table("a.csv", [(" ".join(["film"] * 100) + f" {n}", "ab"[n % 2]) for n in range(10)])
    long, short = made(request_data(file, max_length=128)), made(request_data(file, max_length=8))
    assert short.prepared.cached
    assert long.audit.facts["train"]["truncation"]["rows"] == 0
    cut = short.audit.facts["train"]["truncation"]
    assert (cut["rows_share"], cut["tokens"]) == (1.0, 10 * (101 - 6))
    ids = {finding.id: finding for finding in short.audit.findings}
    assert ids["data.truncation"].change == {"data.max_length": 104}
    assert "data.truncation" not in {finding.id for finding in long.audit.findings}


def test_a_file_rewritten_at_its_size_and_time_is_trained_on_as_it_is_now(
    write_table, request_data, made, many_reviews
):
    file = write_table("a.csv", many_reviews)
    before = file.stat()
    assert rows_of(made(request_data(file))).labels[0] == 1
    swapped = [(text, {"pos": "neg", "neg": "pos"}[label]) for text, label in many_reviews]
    write_table("a.csv", swapped)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    again = made(request_data(file))
    assert not again.prepared.cached
    assert again.prepared.because.endswith(f"{file} has changed")
    assert rows_of(again).labels[0] == 0


def test_words_that_look_like_nothing_are_kept_and_blank_rows_dropped_and_listed(write_table, request_data, made):
    texts = ["null", "NA", "None", "nan", "", "  ", "ok", "007", "3.50"]
    file = write_table("a.csv", [(text, "ab"[place % 2]) for place, text in enumerate(texts)])
    found = made(request_data(file))
    rows = rows_of(found)
    assert [rows.text(n) for n in range(len(rows))] == ["null", "NA", "None", "nan", "ok", "007", "3.50"]
    facts = found.audit.facts["train"]
    assert (facts["rows"], facts["rows_dropped"], facts["empty"]) == (7, 2, {"count": 2, "lines": [6, 7]})
    finding = next(item for item in found.audit.findings if item.id == "data.empty-text")
    assert finding.severity == "warning"
    assert "rows without text: 2 (lines 6, 7); they are left out of training" in finding.message


def test_rows_of_evaluation_files_are_never_dropped(write_table, request_data, made, many_reviews):
    test = write_table("test.csv", [("", "pos"), ("good", "neg"), (" ", "pos")])
    rows = rows_of(made(request_data(write_table("a.csv", many_reviews), test=test)), "test")
    assert rows.lines.tolist() == [2, 3, 4]
    assert rows[0]["input_ids"] == [2, 3]


def test_blank_training_rows_refuse_the_run_where_asked_and_the_audit_says_so(
    tmp_path, write_table, request_data, made
):
    file = write_table("a.csv", [("good", "a"), ("", "b"), ("bad", "b")])
    with pytest.raises(DataError, match=r"rows without text: 1 \(lines 3\)") as caught:
        made(request_data(file, empty_rows="refuse"))
    assert caught.value.audit.facts["train"]["empty"]["lines"] == [3]
    assert list((tmp_path / "cache" / "prepared").iterdir()) == []


def test_one_class_only_is_refused(write_table, request_data, made):
    with pytest.raises(DataError, match=r"there is one class only \(pos\)"):
        made(request_data(write_table("a.csv", [("good", "pos"), ("great", "pos"), ("", "neg")])))


def test_texts_that_are_all_blank_are_refused(write_table, request_data, made):
    with pytest.raises(DataError, match="no row has a text"):
        made(request_data(write_table("a.csv", [("", "pos"), (" ", "neg")]), validation="10%"))


def test_a_label_that_training_lacks_is_refused_with_file_and_line(write_table, request_data, made, many_reviews):
    test = write_table("test.csv", [("good", "pos"), ("so-so", "neutral")])
    with pytest.raises(DataError, match=r"test\.csv, line 3: the label 'neutral' is not in the training data"):
        made(request_data(write_table("a.csv", many_reviews), test=test))


def test_a_third_class_beside_two_asked_for_is_refused_before_the_model(write_table, request_data, made):
    file = write_table("a.csv", [("good", "0"), ("bad", "1"), ("film", "5")])
    with pytest.raises(DataError, match=r"line 4: the label '5' is not among data\.labels"):
        made(request_data(file, labels=("0", "1"), model_folder="/nowhere"))


def test_a_test_file_without_labels_is_refused_with_its_name(write_table, request_data, made, many_reviews):
    test = write_table("test.csv", [("good", "1")], header=("text", "id"))
    with pytest.raises(DataError, match=r"test\.csv has no column 'label'\. Columns found: 'text', 'id'"):
        made(request_data(write_table("a.csv", many_reviews), test=test))


def test_a_giant_text_is_read_and_pointed_out_with_what_truncation_drops(write_table, request_data, made, many_reviews):
    file = write_table("a.csv", [*many_reviews, ("film " * 40_000, "pos")])
    found = made(request_data(file))
    evidence = next(item.evidence for item in found.audit.findings if item.id == "data.long-text")
    assert (evidence["line"], evidence["characters"], evidence["tokens"]) == (402, 200_000, 40_002)
    assert evidence["removed"] == pytest.approx((40_002 - 16) / 40_002)


def test_overlap_with_training_rows_is_reported(write_table, request_data, made):
    train = write_table("a.csv", [(f"film {n}", "ab"[n % 2]) for n in range(20)])
    test = write_table("test.csv", [(f"film {n}", "ab"[n % 2]) for n in (3, 8, 15)] + [("film", "a")] * 7)
    found = made(request_data(train, test=test))
    assert found.audit.facts["test"]["overlap"]["rows"] == 3
    message = next(item.message for item in found.audit.findings if item.id == "data.overlap")
    assert message.startswith("test: 3 of 10 rows (30.0%) are training rows too")


def test_a_length_beyond_the_model_is_refused_before_anything_is_read(request_data, tmp_path):
    asked = request_data("/nowhere.csv", max_length=512, model_max_length=128)
    for start in (lambda: prepare(asked, tmp_path, quiet), lambda: find_prepared(asked, tmp_path)):
        with pytest.raises(ModelError, match="512 tokens are requested, but the model allows 128"):
            start()


def test_a_damaged_set_is_made_anew(write_table, request_data, made, many_reviews):
    asked = request_data(write_table("a.csv", many_reviews))
    first = made(asked)
    file = Path(first.prepared.folder) / "train.arrow"
    file.write_bytes(file.read_bytes()[:-100])
    again = made(asked)
    assert again.prepared.because == "a file of the prepared set is damaged or gone"
    assert len(rows_of(again).lengths) == 400


def test_a_file_that_changes_while_it_is_read_is_refused(write_table, request_data, tmp_path, many_reviews):
    file = write_table("a.csv", many_reviews)

    def meddle(done, total, unit):
        file.write_text("text,label\nother,a\n", encoding="utf-8")

    with pytest.raises(DataError, match="changed while it was read"):
        prepare(request_data(file), tmp_path / "cache", meddle)
    assert list((tmp_path / "cache" / "prepared").iterdir()) == []


def test_a_kill_leaves_no_half_set_and_the_next_start_cleans_up(write_table, request_data, tmp_path, many_reviews):
    asked = request_data(write_table("a.csv", many_reviews * 20))
    code = (
        "import sys, json, os, signal\n"
        "from pathlib import Path\n"
        "from trainwright.data.prepare import prepare\n"
        "from trainwright.data.request import DataRequest\n"
        "def kill(done, total, unit):\n"
        "    if total is not None:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "prepare(DataRequest(**json.loads(sys.argv[1])), Path(sys.argv[2]), kill)\n"
    )
    command = [sys.executable, "-c", code, json.dumps(asdict(asked)), str(tmp_path / "cache")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    left = list((tmp_path / "cache" / "prepared").iterdir())
    assert [path.name.startswith(".") for path in left] == [True]
    assert find_prepared(asked, tmp_path / "cache").preparation is None
    found = prepare(asked, tmp_path / "cache", quiet)
    assert [path.name for path in (tmp_path / "cache" / "prepared").iterdir()] == [found.prepared.key]


def test_progress_reaches_the_number_of_rows(write_table, request_data, tmp_path, many_reviews):
    told = []
    asked = request_data(write_table("a.csv", many_reviews), validation="10%")
    prepare(asked, tmp_path / "cache", lambda *words: told.append(words))
    assert told[-1] == (400, 400, "rows")


def test_every_format_gives_the_same_rows(tmp_path, request_data, many_reviews):
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts, labels = zip(*many_reviews, strict=True)
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"{t},{n}\n" for t, n in many_reviews), encoding="utf-8")
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "".join(f"{t}\t{n}\n" for t, n in many_reviews), encoding="utf-8")
    lines = [json.dumps({"label": label, "text": text}) + "\n" for text, label in many_reviews]
    (tmp_path / "a.jsonl").write_text("".join(lines), encoding="utf-8")
    pq.write_table(pa.table({"text": texts, "label": labels}), tmp_path / "a.parquet")
    read = []
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.parquet"):
        rows = rows_of(prepare(request_data(tmp_path / name, validation="10%"), tmp_path / "cache", quiet))
        read.append([rows[n] for n in range(len(rows))])
    assert len(read[0]) == 360
    assert read[0] == read[1] == read[2] == read[3]


def test_a_cached_decision_on_many_rows_takes_a_fraction_of_a_second(tmp_path, write_table, request_data, made):
    file = write_table("a.csv", [(f"film {n % 5000} good", "ab"[n % 2]) for n in range(50_000)])
    made(request_data(file))
    began = time.perf_counter()
    assert find_prepared(request_data(file), tmp_path / "cache").preparation is not None
    assert time.perf_counter() - began < 0.5


def test_class_counts_of_real_sets_agree_with_a_count_by_hand(shared_data, request_data, made):
    for name, classes in [("snips", 7), ("banking77", 77)]:
        folder = shared_data / name
        found = made(request_data(folder / "train.jsonl", validation="10%", test=folder / "test.jsonl"))
        with open(folder / "train.jsonl", encoding="utf-8") as file:
            labels = [json.loads(line)["label"] for line in file]
        expected = [labels.count(label) for label in sorted(set(labels))]
        both = np.array(found.prepared.label_rows["train"]) + found.prepared.label_rows["validation"]
        assert len(found.prepared.labels) == classes
        assert both.tolist() == expected


def test_repeats_of_a_real_set_agree_with_a_count_in_plain_python(shared_data, request_data, made):
    folder = shared_data / "zh_shop_reviews"
    facts = made(request_data(folder / "train.jsonl", test=folder / "test.jsonl")).audit.facts
    rows = {}
    for split in ("train", "test"):
        with open(folder / f"{split}.jsonl", encoding="utf-8") as file:
            rows[split] = [json.loads(line) for line in file]
        labels_of = {}
        for row in rows[split]:
            labels_of.setdefault(row["text"], []).append(row["label"])
        torn = [labels for labels in labels_of.values() if len(set(labels)) > 1]
        assert facts[split]["duplicates"]["rows"] == len(rows[split]) - len(labels_of) > 0
        assert (facts[split]["conflicts"]["texts"], facts[split]["conflicts"]["rows"]) == (
            len(torn),
            sum(map(len, torn)),
        )
    known = {(row["text"], row["label"]) for row in rows["train"]}
    texts = {text for text, _label in known}
    shared = [row for row in rows["test"] if row["text"] in texts]
    assert facts["test"]["overlap"]["rows"] == len(shared) > 400
    assert facts["test"]["overlap"]["other_label"] == sum((row["text"], row["label"]) not in known for row in shared)


@pytest.mark.parametrize("family", ["word_pieces", "byte_pairs"])
def test_pairs_are_cut_and_joined_as_the_tokenizer_does_it_at_any_length(
    family, request, tmp_path, write_table, request_data
):
    from transformers import AutoTokenizer

    folder = request.getfixturevalue(family)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    draw = random.Random(1)
    words = ["the", "good", "bad", "film", "你好", "3.5"]
    pairs = [[" ".join(draw.choices(words, k=draw.randrange(1, 20))) for _side in range(2)] for _row in range(300)]
    table = [(*pair, "ab"[place % 2]) for place, pair in enumerate(pairs)]
    file = write_table("pairs.csv", table, header=("premise", "hypothesis", "label"))
    for length in (8, 9, 16, 17, 64, 512):
        changes = {"model_folder": str(folder), "max_length": length, "text": "premise", "text_pair": "hypothesis"}
        rows = rows_of(prepare(request_data(file, **changes), tmp_path / "cache", quiet))
        expected = [tokenizer(*pair, truncation=True, max_length=length) for pair in pairs]
        assert [rows[n]["input_ids"] for n in range(300)] == [one["input_ids"] for one in expected]
        assert rows.lengths.tolist() == [len(one["input_ids"]) for one in expected]
        if "token_type_ids" in tokenizer.model_input_names:
            assert [rows[n]["token_type_ids"] for n in range(300)] == [one["token_type_ids"] for one in expected]
    assert rows.text(0) == "\n".join(pairs[0])


def test_equal_pairs_are_duplicates_and_equal_first_texts_alone_are_none(made, write_table, request_data):
    table = [("a", "b", "x"), ("a", "c", "y"), ("a", "b", "x"), ("ab", "", "y"), ("d", "e", "y")]
    file = write_table("pairs.csv", table, header=("one", "two", "label"))
    facts = made(request_data(file, text="one", text_pair="two")).audit.facts["train"]
    assert facts["duplicates"]["rows"] == 1
    assert facts["empty"] == {"count": 1, "lines": [5]}


def test_pairs_are_near_copies_text_by_text_only(made, write_table, request_data):
    table = [("a b", "C", "x"), ("A B", "c", "x"), ("a", "b c", "y")]  # the third is the first with another seam
    file = write_table("pairs.csv", table, header=("one", "two", "label"))
    facts = made(request_data(file, text="one", text_pair="two")).audit.facts["train"]
    assert facts["near_duplicates"]["texts"] == 1


def test_another_pair_column_or_task_is_prepared_anew(made, write_table, request_data):
    table = [("a", "b", "c", "1"), ("d", "e", "f", "2")]
    file = write_table("pairs.csv", table, header=("one", "two", "three", "label"))
    made(request_data(file, text="one", text_pair="two"))
    assert made(request_data(file, text="one", text_pair="two")).prepared.cached
    assert not made(request_data(file, text="one", text_pair="three")).prepared.cached
    assert not made(request_data(file, text="one", text_pair="two", task="regression")).prepared.cached


def test_sets_scores_and_ranks_are_read_as_the_loss_takes_them(made, tmp_path, request_data):
    path = tmp_path / "rows.jsonl"
    rows = [{"text": f"a {n}", "tags": ["b", "a"][: n % 3], "score": n / 4, "stars": n % 3 + 1} for n in range(6)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    sets = made(request_data(path, label="tags", task="multi-label"))
    assert sets.prepared.labels == ["a", "b"]
    assert sets.prepared.label_rows["train"] == [2, 4]
    found = [row["labels"].tolist() for row in rows_of(sets, kind="set").__getitems__(range(6))]
    assert found == [[0, 0], [0, 1], [1, 1]] * 2
    scores = rows_of(made(request_data(path, label="score", task="regression")), kind="score")
    assert [scores[n]["labels"] for n in range(6)] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
    ranks = rows_of(made(request_data(path, label="stars", task="ordinal")), kind="rank")
    assert [ranks[n]["labels"] for n in range(3)] == [[0, 0], [1, 0], [1, 1]]


def test_scores_that_are_all_alike_are_refused(made, write_table, request_data):
    file = write_table("a.csv", [("a", "0.5"), ("b", "0.50")])
    with pytest.raises(DataError, match=r"every row has the same score \(0\.5\)"):
        made(request_data(file, task="regression"))

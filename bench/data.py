"""Tokenising and loading beside datasets.map and the default collator, and the cost of a step as rows grow.

``python bench/data.py`` writes bench/results/data.json.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from speed import Clock, about, make_trainer
from work import EXAMPLES, WORKS, encoder, model_of, rows_of

from trainwright.data.prepare import prepare
from trainwright.data.request import request_for
from trainwright.data.store import TokenRows
from trainwright.model.locate import locate
from trainwright.model.unpad import Unpadded
from trainwright.recipe.load import load_recipe
from trainwright.train.batches import PackedBatches
from trainwright.train.rows import IndexedRows, RowLoader, StepSampler, gather_rows
from trainwright.train.seeds import shuffled

RESULTS = Path(__file__).parent / "results" / "data.json"
TEXTS = 40_000
ROUNDS = 5
BUDGET = 2048


def main() -> None:
    datasets.disable_progress_bars()
    transformers.utils.logging.set_verbosity_error()
    trials = []
    with tempfile.TemporaryDirectory() as scratch:
        file = write_texts(Path(scratch) / "texts.jsonl")
        for number in range(ROUNDS):
            for name, measured in (("trainwright", ours(file)), ("datasets.map and collator", theirs(file))):
                trials.append({"round": number, "contender": name} | measured)
                print(json.dumps(trials[-1]), flush=True)
    scale = []
    for number in range(3):
        for rows in (1_000, 10_000, 100_000):
            scale.append({"round": number, "rows": rows, "seconds_per_token": seconds_per_token(rows)})
            print(json.dumps(scale[-1]), flush=True)
    RESULTS.write_text(json.dumps({"about": about(), "trials": trials, "scale": scale}, indent=1) + "\n")


def write_texts(file: Path) -> Path:
    """The requests of snips again and again, each with a number so that no two are alike."""
    source = Path(__file__).resolve().parents[2] / "shared" / "data" / "snips" / "train.jsonl"
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    with open(file, "w", encoding="utf-8") as out:
        for number in range(TEXTS):
            row = rows[number % len(rows)]
            out.write(json.dumps({"text": f"{row['text']} {number}", "label": row["label"]}) + "\n")
    return file


def ours(file: Path) -> dict[str, float]:
    """Rows a second of auditing, tokenising and writing; tokens a second of loading packed batches."""
    recipe_file = file.with_name("recipe.yaml")
    recipe_file.write_text(
        f"model: packaged:all-minilm-l6-v2\ndata: {{train: {file}, text: text, label: label, max_length: 128}}\n"
    )
    recipe, model = load_recipe(recipe_file).recipe, locate("packaged:all-minilm-l6-v2")
    cache = Path(tempfile.mkdtemp())
    began = time.perf_counter()
    prepared = prepare(request_for(recipe, model.folder, model.max_length), cache, lambda *_: None).prepared
    tokenising = prepared_rows(prepared) / (time.perf_counter() - began)
    rows = TokenRows(Path(prepared.folder), prepared.splits["train"], prepared)
    batches = PackedBatches(Unpadded(model_of("minilm", len(prepared.labels))))
    sampler = StepSampler(len(rows), EXAMPLES, lambda epoch: shuffled(len(rows), 0, epoch), lambda: 0)
    began, tokens = time.perf_counter(), 0
    for step in RowLoader(IndexedRows(rows), batch_sampler=sampler, collate_fn=gather_rows):
        lengths = step.lengths()
        for piece in batches.cut(lengths, BUDGET):
            tokens += batches.make([step.rows[place] for place in piece])["input_ids"].numel()
    loading = tokens / (time.perf_counter() - began)
    shutil.rmtree(cache)
    return {"rows_per_second": tokenising, "loaded_tokens_per_second": loading}


def prepared_rows(prepared: Any) -> int:
    return sum(split.rows for split in prepared.splits.values())


def theirs(file: Path) -> dict[str, float]:
    """The same texts by datasets.map, batched, and by torch's loader with the collator that pads."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder())
    began = time.perf_counter()
    cache = tempfile.mkdtemp()
    texts = datasets.load_dataset("json", data_files=str(file), split="train", cache_dir=cache)
    made = texts.map(lambda rows: tokenizer(rows["text"], truncation=True, max_length=128), batched=True)
    tokenising = len(made) / (time.perf_counter() - began)
    made = made.remove_columns(["text", "label"])
    order = torch.randperm(len(made), generator=torch.Generator().manual_seed(0)).tolist()[:20_000]
    collator = transformers.DataCollatorWithPadding(tokenizer)
    loader: Any = torch.utils.data.DataLoader(made, batch_size=16, sampler=order, collate_fn=collator)
    began = time.perf_counter()
    tokens = sum(int(batch["attention_mask"].sum()) for batch in loader)
    loading = tokens / (time.perf_counter() - began)
    shutil.rmtree(cache)
    return {"rows_per_second": tokenising, "loaded_tokens_per_second": loading}


def seconds_per_token(count: int) -> float:
    """Training seconds per real token where the set has so many rows."""
    rows, classes = rows_of(WORKS["short"], 1_000)
    many = [rows[place % len(rows)] for place in range(count)]
    clock = Clock()
    trainer = make_trainer("trainwright bf16", many, model_of("minilm", classes), clock, 13)
    trainer.train()
    taken = [after - before for before, after in zip(clock.ends, clock.ends[1:], strict=False)]
    tokens = EXAMPLES * statistics.mean(len(row["input_ids"]) for row in rows)
    return statistics.median(taken) / tokens


if __name__ == "__main__":
    main()

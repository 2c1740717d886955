"""The usual script for fine-tuning BERT, with one import line changed.

    python examples/guide_script.py                        docstrings as text, the packaged encoder: needs no network
    python examples/guide_script.py --model FOLDER --data FILE.csv

The CSV has the columns text and label. The batch of one optimizer step is 16 x 4 = 64 rows, as the arguments say; how
it is cut to fit is Trainwright's business. On a machine without a GPU fp16 is switched off, with a warning.
"""

import argparse
import tempfile
from pathlib import Path

from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainingArguments

from trainwright import Trainer  # instead of: from transformers import Trainer


def main() -> None:
    options = parse()
    rows = load_dataset("csv", data_files=str(options.data), split="train")
    labels = sorted(set(rows["label"]))
    tokenizer = AutoTokenizer.from_pretrained(options.model)

    def tokenise(batch):
        ids = tokenizer(batch["text"], truncation=True, max_length=128)  # ragged: no padding here
        return {**ids, "labels": [labels.index(label) for label in batch["label"]]}

    parts = rows.map(tokenise, batched=True, remove_columns=rows.column_names).train_test_split(0.1, seed=0)

    names = dict(enumerate(labels))
    model = AutoModelForSequenceClassification.from_pretrained(
        options.model, id2label=names, label2id={label: number for number, label in names.items()}
    )
    arguments = TrainingArguments(
        output_dir=options.output,
        per_device_train_batch_size=16,
        gradient_accumulation_steps=4,
        fp16=True,
        logging_steps=100,
        save_steps=500,
        learning_rate=1e-4,
        max_steps=options.steps,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=parts["train"],
        eval_dataset=parts["test"],
        compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())},
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model(str(Path(options.output) / "model"))
    tokenizer.save_pretrained(Path(options.output) / "model")  # a whole folder: trainwright predict guide-run FILE


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="model folder or hub id [default: the packaged encoder]")
    parser.add_argument("--data", type=Path, help="CSV with the columns text and label [default: docstrings]")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--output", default="guide-run")
    options = parser.parse_args()
    if options.model is None:
        from trainwright.model.packaged import packaged_folder

        options.model = str(packaged_folder("packaged:all-minilm-l6-v2"))
    if options.data is None:
        from trainwright.data.docstrings import write_docstrings

        options.data = write_docstrings(Path(tempfile.mkdtemp()) / "docstrings.csv", rows=2000)
    return options


if __name__ == "__main__":
    main()

"""Make a small BERT folder, drawn at random, from a vocabulary: for trying a recipe where no pretrained model is.

python examples/make_small_bert.py vocab.txt small-bert
python examples/make_small_bert.py vocab.txt small-bert --layers 4 --hidden 256 --heads 4
"""

import argparse
import shutil
import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertModel, BertTokenizer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("vocabulary", type=Path, help="one WordPiece entry a line")
    parser.add_argument("folder", type=Path, help="folder to make")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--positions", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.folder.exists():
        print(f"{options.folder} exists and is left as it is; choose another name.", file=sys.stderr)
        return 2
    options.folder.mkdir(parents=True)
    shutil.copyfile(options.vocabulary, options.folder / "vocab.txt")
    tokenizer = BertTokenizer.from_pretrained(options.folder, model_max_length=options.positions)
    tokenizer.save_pretrained(options.folder)
    torch.manual_seed(options.seed)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        intermediate_size=4 * options.hidden,
        max_position_embeddings=options.positions,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = BertModel(config)
    model.save_pretrained(options.folder)
    print(f"{options.folder}: {sum(p.numel() for p in model.parameters()):,} parameters, {len(tokenizer):,} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())

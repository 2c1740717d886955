"""What is wrong with a model folder, found from its files alone: no library that could load it is imported.

The header of a safetensors file is JSON in front of the numbers (eight bytes of length, then names, types, shapes and
places), so shapes, a missing part and a file that was cut off are seen without reading the weights.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.errors import ModelError
from trainwright.messages.text import _
from trainwright.model import remote_code
from trainwright.records import Finding
from trainwright.units import format_bytes

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
TOKENIZERS = ("tokenizer.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model", "vocab.json", "tokenizer.model")
POINTER = b"version https://git-lfs"
POINTER_BYTES = 1024  # a Git LFS pointer file is a few lines of text, never a kilobyte
LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
# The loader of torch before 2.6 could be made to run code from a file even with weights_only (CVE-2025-32434).
SAFE_TORCH = (2, 6)
HEADS = ("classifier.weight", "classifier.out_proj.weight", "score.weight")  # the last layer of transformers' heads
EMBEDDINGS = ("word_embeddings.weight", "embeddings.tok_embeddings.weight", "wte.weight", "embed_tokens.weight")
# Positions of these start behind the padding id (RoBERTa: 2, 3, ...), so that many of their slots are never used.
OFFSET_KINDS = (
    "camembert",
    "data2vec-text",
    "ibert",
    "longformer",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)


@dataclass(frozen=True)
class LocalModel:
    """A model folder on this machine.

    Attributes:
        folder: With config.json, weights and tokenizer.
        config: The parsed config.json.
        max_length: Longest input in tokens that its position table allows; None if it has none.
        because: Where it was found, in words.
    """

    folder: Path
    config: dict[str, Any]
    max_length: int | None
    because: str


def check_folder(folder: Path, because: str) -> LocalModel:
    """Check that a folder holds what training needs.

    Raises:
        ModelError: It does not; with the file, the value seen and the way out.
    """
    _no_pointers(folder)
    config = _config_of(folder)
    _no_remote_code(folder, config)
    shapes = weight_shapes(folder)
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise ModelError(
            _("{folder} holds no tokenizer (none of {names}).").format(folder=folder, names=", ".join(TOKENIZERS)),
            _("Copy the tokenizer files of the model beside its weights."),
        )
    _tokenizer_fits(folder, config, shapes)
    return LocalModel(folder, config, position_limit(config), because)


def position_limit(config: dict[str, Any]) -> int | None:
    """Tokens that the position table allows.

    RoBERTa-like tables hide slots: positions start at padding id + 1 (for RoBERTa 514 positions, 512 tokens).
    Models with relative or rotary positions only (no table) still name the length they were trained for.
    """
    limit = config.get("max_position_embeddings", config.get("n_positions"))
    if not isinstance(limit, int) or limit <= 0:
        return None
    if config.get("model_type", "") not in OFFSET_KINDS:
        return limit
    padding = config.get("pad_token_id")
    return limit - (1 if padding is None else int(padding)) - 1


def weight_shapes(folder: Path) -> dict[str, list[int]]:
    """The shape of every weight by name; empty where the weights are pickles, which are not opened for this.

    Raises:
        ModelError: There are no weights, a part is missing or was cut off, or torch is too old for a pickle.
    """
    present = next((name for name in (*WEIGHTS, *PICKLES) if (folder / name).is_file()), None)
    if present is None:
        raise ModelError(
            _("{folder} holds no weights (model.safetensors).").format(folder=folder),
            _("Download or save the model again."),
        )
    parts = _parts(folder, present)
    if present in PICKLES:
        _torch_reads_pickles(folder / present)
        return {}
    return {name: shape for part in parts for name, shape in _header(folder / part).items()}


def head_finding(model: LocalModel, labels: list[str]) -> Finding | None:
    """What becomes of a head that the model brings, given the labels of the data; None if there is nothing to say.

    A head of another size is drawn anew. One of the same size is kept, row by row, so its names matter.
    """
    if not any("ForSequenceClassification" in name for name in model.config.get("architectures") or []):
        return None
    rows = next((shape[0] for name, shape in weight_shapes(model.folder).items() if name in HEADS), None)
    names = [str(name) for _id, name in sorted(_ids(model.config.get("id2label")).items())]
    rows = rows if rows is not None else len(names) or None
    evidence = {"model": names or rows, "data": labels}
    if rows is not None and rows != len(labels):
        message = _("The model's head knows {rows} classes and the data has {labels}: a new head is drawn at random.")
        return Finding("model.head-size", "warning", message.format(rows=rows, labels=len(labels)), evidence)
    if not names or names == labels or all(name == f"LABEL_{number}" for number, name in enumerate(names)):
        return None
    told = {"model": ", ".join(names[:8]), "data": ", ".join(labels[:8])}
    if sorted(names) == sorted(labels):
        message = _("The model's head has the labels in another order ({model}) than the data ({data}).")
        remedy = _("Give the order of the model in data.labels, so that each label keeps what was learned for it.")
        return Finding("model.head-order", "warning", message.format(**told), evidence, remedy, {"data.labels": names})
    message = _("The model's head was trained for other labels ({model}) than those of the data ({data}).")
    remedy = _("It goes on from there; start from the model without its head if that is not wanted.")
    return Finding("model.head-names", "warning", message.format(**told), evidence, remedy)


def padding_finding(model: LocalModel) -> Finding | None:
    """Says which token pads for a model whose configuration names none (GPT-2, Llama, Qwen); None if it names one.

    Encoders of before such a key existed name no end token either, and have a token for padding.
    """
    if model.config.get("pad_token_id") is not None or model.config.get("eos_token_id") is None:
        return None
    named: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):  # the first one is of older models
        named |= _json(model.folder / name) or {}
    own = _token(named.get("pad_token"))
    token = own or _token(named.get("eos_token")) or str(model.config["eos_token_id"])
    message = _("The model has no token for padding: its end token {token} is used, in tokenizer and model alike.")
    if own:
        message = _("The model's configuration names no token for padding: its tokenizer's {token} is used.")
    return Finding("model.pad-token", "note", message.format(token=token), {"pad_token": token})


# -- the files -----------------------------------------------------------------------------------------------------


def _no_pointers(folder: Path) -> None:
    for file in sorted(folder.glob("*")):
        if not file.is_file() or file.stat().st_size >= POINTER_BYTES:
            continue
        if file.read_bytes().startswith(POINTER):
            raise ModelError(
                _("{file} is a Git LFS pointer, not the file itself.").format(file=file),
                _("Fetch the real file: git lfs pull, or download the model again."),
            )


def _config_of(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            _("{folder} holds no config.json, so it is not a model folder.").format(folder=folder),
            _("Name the folder that save_pretrained wrote."),
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelError(
            _("{file} is not readable JSON: {error}.").format(file=file, error=error),
            _("Download or save the model again."),
        ) from None
    if not isinstance(config, dict):
        raise ModelError(_("{file} holds no keys.").format(file=file), _("Download or save the model again."))
    return config


def _no_remote_code(folder: Path, config: dict[str, Any]) -> None:
    """A model that transformers knows by itself needs none of the code that may lie beside it."""
    kind = str(config.get("model_type", ""))
    if "auto_map" not in config or remote_code.allowed() or _is_known(kind):
        return
    raise ModelError(
        _("{folder} is a model of its own kind ({kind}), which works only with Python code that comes with it.").format(
            folder=folder, kind=kind or "n/a"
        ),
        _(
            "Such code is not run unless you say so: read it, and give the command --trust-remote-code. Or choose a "
            "model whose kind transformers knows."
        ),
    )


def _is_known(kind: str) -> bool:
    """Whether the installed transformers has a model of this kind; it is looked for, not imported."""
    spec = importlib.util.find_spec("transformers")
    places = spec.submodule_search_locations if spec else None
    return bool(kind) and any((Path(place) / "models" / kind.replace("-", "_")).is_dir() for place in places or [])


def _parts(folder: Path, present: str) -> list[str]:
    """The weight files: the one, or all that an index names.

    Raises:
        ModelError: The index cannot be read, or files that it names are missing.
    """
    if not present.endswith(".index.json"):
        return [present]
    index = _json(folder / present)
    if not isinstance(index, dict) or not isinstance(index.get("weight_map"), dict) or not index["weight_map"]:
        raise ModelError(
            _("{file} names no weight files.").format(file=folder / present), _("Download the model again.")
        )
    parts = sorted(set(index["weight_map"].values()))
    missing = [part for part in parts if not (folder / part).is_file()]
    if missing:
        raise ModelError(
            _("{folder} lacks {count} of {all} weight files: {names}.").format(
                folder=folder, count=len(missing), all=len(parts), names=", ".join(missing[:3])
            ),
            _("Download the model again; what is there is kept."),
        )
    return parts


def _header(file: Path) -> dict[str, list[int]]:
    """Shape by name, from the header of a safetensors file.

    Raises:
        ModelError: It is no such file, or shorter than its header says.
    """
    with open(file, "rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        try:
            header = json.loads(opened.read(length)) if 0 < length <= LONGEST_HEADER else None
        except (json.JSONDecodeError, UnicodeDecodeError):
            header = None
    size = file.stat().st_size
    if not isinstance(header, dict):
        raise ModelError(
            _("{file} is not a safetensors file ({size}).").format(file=file, size=format_bytes(size)),
            _("Download or save the model again."),
        )
    header.pop("__metadata__", None)
    whole = 8 + length + max((item["data_offsets"][1] for item in header.values()), default=0)
    if size < whole:
        raise ModelError(
            _("{file} was cut off: it has {size} of {whole}.").format(
                file=file, size=format_bytes(size), whole=format_bytes(whole)
            ),
            _("Download or copy it again."),
        )
    return {name: item["shape"] for name, item in header.items()}


def _torch_reads_pickles(file: Path) -> None:
    """Weights in a .bin file are a pickle: only a torch whose loader is safe may read it."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    if tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit()) >= SAFE_TORCH:
        return
    raise ModelError(
        _("{file} is a pickle, and torch {version} cannot read it safely (2.6 and later can).").format(
            file=file, version=version
        ),
        _(
            "Upgrade torch, or save the model once as model.safetensors on a machine that has a newer one: "
            "AutoModel.from_pretrained(FOLDER).save_pretrained(FOLDER)."
        ),
    )


# -- the tokenizer -------------------------------------------------------------------------------------------------


def _tokenizer_fits(folder: Path, config: dict[str, Any], shapes: dict[str, list[int]]) -> None:
    """An id without a row in the embedding ends training with an index error, at the first text that has it."""
    rows = next((shape[0] for name, shape in shapes.items() if name.endswith(EMBEDDINGS)), config.get("vocab_size"))
    tokens = tokenizer_size(folder)
    if isinstance(rows, int) and tokens is not None and tokens > rows:
        raise ModelError(
            _("The tokenizer in {folder} has ids up to {highest}, but the model's embedding has {rows} rows.").format(
                folder=folder, highest=tokens - 1, rows=rows
            ),
            _("Use the tokenizer that was saved with the model, or resize_token_embeddings({tokens}) and save.").format(
                tokens=tokens
            ),
        )


def tokenizer_size(folder: Path) -> int | None:
    """The highest id of a tokenizer, and one; None if its files are of a kind that is not read here."""
    saved = _json(folder / "tokenizer.json")
    if isinstance(saved, dict):
        ids = [token["id"] for token in saved.get("added_tokens") or []]
        vocabulary = (saved.get("model") or {}).get("vocab") or {}
        ids += vocabulary.values() if isinstance(vocabulary, dict) else [len(vocabulary) - 1]
        return max(ids, default=-1) + 1
    words = folder / "vocab.txt"
    if words.is_file():
        with open(words, "rb") as file:
            lines = sum(1 for line in file if line.strip())
        added = _json(folder / "added_tokens.json") or {}
        return max([lines - 1, *added.values()]) + 1
    return None


def _json(file: Path) -> Any:
    """A JSON file; None if it is missing or unreadable."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _token(named: Any) -> str | None:
    """A special token as its files name it: a word, or a record that holds it."""
    return named.get("content") if isinstance(named, dict) else named


def _ids(names: Any) -> dict[int, Any]:
    """Labels by number; JSON has made the numbers words."""
    return {int(number): name for number, name in names.items()} if isinstance(names, dict) else {}

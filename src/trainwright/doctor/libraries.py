"""What only this recipe needs: optional libraries, its files, its model."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from trainwright.doctor.records import Check, Facts, Fix
from trainwright.messages.text import _

# What transformers imports for a value of report_to, and the package that brings it
LOGGERS = {
    "wandb": ("wandb", "wandb"),
    "mlflow": ("mlflow", "mlflow"),
    "swanlab": ("swanlab", "swanlab"),
    "trackio": ("trackio", "trackio"),
    "comet_ml": ("comet_ml", "comet-ml"),
    "clearml": ("clearml", "clearml"),
    "azure_ml": ("azureml.core", "azureml-sdk"),
    "codecarbon": ("codecarbon", "codecarbon"),
    "dagshub": ("dagshub", "dagshub"),
    "dvclive": ("dvclive", "dvclive"),
    "flyte": ("flytekit", "flytekit"),
}
PACKAGED = "packaged:"


def libraries_are_here(facts: Facts) -> Iterator[Check]:
    """Each optional library that the recipe asks for is installed."""
    if facts.asked is None:
        return
    recipe = facts.asked.recipe
    wanted = [(f"run.report_to: {name}", *LOGGERS[name]) for name in recipe.run.report_to if name in LOGGERS]
    missing = [(asks, package) for asks, module, package in wanted if not _is_here(module)]
    extras = [("hub: modelscope", "modelscope")] if facts.asked.from_hub and recipe.hub == "modelscope" else []
    extras += [(f"model: {recipe.model}", "quickstart")] if recipe.model.startswith(PACKAGED) else []
    missing += [(asks, f"trainwright[{extra}]") for asks, extra in extras if not _has_extra(facts, extra)]
    for asks, package in missing:
        message = _("{asks} needs a library that is not installed.").format(asks=asks)
        fix = Fix(_("Install it."), install=(package,))
        yield Check("libraries.missing", "blocker", message, {"asks": asks, "package": package}, fix)
    if not missing:
        yield Check("libraries.here", "ok", _("Every library that the recipe needs is installed."))


def _is_here(module: str) -> bool:
    """Whether a module could be imported; it is looked for and not run."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


def _has_extra(facts: Facts, extra: str) -> bool:
    """Whether everything that an extra brings is installed, in versions that fit."""
    for wanted in map(Requirement, facts.packages.extras.get(extra, [])):
        found = facts.packages.versions.get(canonicalize_name(wanted.name))
        if found is None or not wanted.specifier.contains(found, prereleases=True):
            return False
    return True


def files_are_here(facts: Facts) -> Iterator[Check]:
    """Each file that the recipe names exists."""
    if facts.asked is None:
        return
    for path in facts.asked.missing:
        message = _("The recipe names {path}, which is not here.").format(path=path)
        fix = Fix(_("Upload it, or correct its path; relative paths start at the recipe's folder."))
        yield Check("recipe.files", "blocker", message, {"path": path}, fix)
    if not facts.asked.missing:
        train = facts.asked.recipe.data.train
        names = ", ".join(Path(name).name for name in ([train] if isinstance(train, str) else train))
        yield Check("recipe.files", "ok", _("The data are here ({file}).").format(file=names))


def model_is_usable(facts: Facts) -> Iterator[Check]:
    """The recipe's model, where its files are here, is one that can be trained."""
    if facts.asked is None:
        return
    problem, way_out = facts.asked.model_problem
    model = facts.asked.recipe.model
    if problem:
        yield Check("recipe.model", "blocker", problem, {"model": model}, Fix(way_out) if way_out else None)
    elif facts.asked.from_hub:
        message = _("The model {model} is not here yet; it will be fetched.").format(model=model)
        yield Check("recipe.model", "note", message, {"model": model})
    else:
        message = _("The model {model} is here.").format(model=model)
        evidence = {"model": model, "parameters": facts.asked.parameters}
        yield Check("recipe.model", "ok", message, evidence)


CHECKS = (libraries_are_here, files_are_here, model_is_usable)

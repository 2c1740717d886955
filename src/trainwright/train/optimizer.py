"""Parameter groups with a learning rate per layer.

Layer-wise decay (Howard and Ruder 2018, discriminative fine-tuning): with L layers, the head trains at the full rate,
the top layer at rate x decay, the layer below at rate x decay^2, ... and the embeddings at rate x decay^(L+1).
"""

from __future__ import annotations

from typing import Any

from torch import nn


def layer_depths(model: nn.Module) -> dict[str, int]:
    """The depth of each parameter: 0 for the embeddings, 1..L for the layers, L+1 for everything above them.

    Layers are the largest ``ModuleList`` of the model's backbone. What stands beside them inside the encoder
    (DeBERTa's shared relative embeddings and their norm) counts as embeddings; poolers and heads count as above.
    ALBERT shares one layer, so there L is 1.

    Args:
        model: A transformers model, with or without a head.

    Returns:
        Parameter name to depth, for every parameter.
    """
    backbone = getattr(model, getattr(model, "base_model_prefix", ""), model)
    prefix = next((f"{name}." for name, module in model.named_modules() if module is backbone and name), "")
    stack = _layer_stack(backbone)
    if stack is None:
        return {name: 1 if name.startswith(prefix) and prefix else 2 for name, _parameter in model.named_parameters()}
    parent = f"{prefix}{stack.rpartition('.')[0]}." if "." in stack else ""
    layers = len(list(backbone.get_submodule(stack).children()))
    depths, above = {}, False
    for name, _parameter in model.named_parameters():
        if name.startswith(f"{prefix}{stack}."):
            depths[name] = 1 + int(name[len(f"{prefix}{stack}.") :].split(".")[0])
            above = True
        elif not name.startswith(prefix) or (above and not (parent and name.startswith(parent))):
            depths[name] = layers + 1
        else:
            depths[name] = 0
    return depths


def layer_groups(
    model: nn.Module, learning_rate: float, decay: float, weight_decay: float, decayed: set[str]
) -> list[dict[str, Any]]:
    """Parameter groups for a torch optimizer, from the embeddings up.

    Args:
        learning_rate: Rate of the head.
        decay: Factor from each layer to the one below it.
        weight_decay: For the parameters named in ``decayed``; the others get none.

    Returns:
        Groups with ``params``, ``lr``, ``weight_decay`` and a ``name`` for the report.
    """
    depths = layer_depths(model)
    top = max(depths.values())
    groups: dict[tuple[int, bool], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        key = (depths[name], name in decayed)
        if key not in groups:
            groups[key] = {
                "params": [],
                "lr": learning_rate * decay ** (top - depths[name]),
                "weight_decay": weight_decay if name in decayed else 0.0,
                "name": _depth_name(depths[name], top),
            }
        groups[key]["params"].append(parameter)
    return [groups[key] for key in sorted(groups, key=lambda key: (key[0], not key[1]))]


def asked_options(optimizer: Any) -> list[dict[str, Any]]:
    """What the recipe asks of each parameter group, before a checkpoint's groups are loaded over it."""
    kept = ("params", "lr", "initial_lr")
    groups = optimizer.param_groups
    return [
        {name: value for name, value in group.items() if name not in kept} | {"initial_lr": group["lr"]}
        for group in groups
    ]


def restate(optimizer: Any, scheduler: Any, asked: list[dict[str, Any]]) -> None:
    """Put what is asked for in the place of what a checkpoint brought along: rates, decay, and the schedule's place.

    A checkpoint holds the options of each parameter group beside its moments, so a changed recipe would else be without
    effect. For schedules of torch's LambdaLR, as transformers makes them; others go on as they were.
    """
    lambdas = getattr(scheduler, "lr_lambdas", None)
    if lambdas is None or len(asked) != len(optimizer.param_groups):
        return
    scheduler.base_lrs = [options["initial_lr"] for options in asked]
    for group, options, rate in zip(optimizer.param_groups, asked, lambdas, strict=True):
        group.update(options)
        group["lr"] = options["initial_lr"] * rate(scheduler.last_epoch)
    scheduler._last_lr = [group["lr"] for group in optimizer.param_groups]  # what is logged


def rate_at(step: int, steps: int, warmup: int, rate: float, kind: str) -> float | None:
    """The learning rate of the step that follows ``step`` done ones, by transformers' own schedule; None if unknown."""
    import torch
    from transformers import get_scheduler

    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate)
    try:
        lambdas = getattr(get_scheduler(kind, optimizer, warmup, steps), "lr_lambdas", None)
    except (TypeError, ValueError):  # one that wants options of its own
        return None
    return rate * float(lambdas[0](step)) if lambdas else None


def _layer_stack(backbone: nn.Module) -> str | None:
    """Name of the ModuleList that holds the transformer layers: the one with the most parameters."""
    sizes = {
        name: sum(parameter.numel() for parameter in module.parameters())
        for name, module in backbone.named_modules()
        if isinstance(module, nn.ModuleList)
    }
    return max(sizes, key=lambda name: (sizes[name], -len(name)), default=None)


def _depth_name(depth: int, top: int) -> str:
    if depth == 0:
        return "embeddings"
    return "head" if depth == top else f"layer {depth}"

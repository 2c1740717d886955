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

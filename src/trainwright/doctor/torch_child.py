"""What torch is and does here, found in a process of its own: ``python -m trainwright.doctor.torch_child``.

A torch that is broken may end the process that imports it, so each fact is written as soon as it is known, one JSON
line each. Whatever libraries print goes to standard error.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, TextIO

SIDE = 16  # of the matrices that the tiny kernel multiplies


def main(output: TextIO) -> None:
    """Import torch and try it; write what is found, line by line."""

    def tell(**facts: Any) -> None:
        print(json.dumps(facts), file=output, flush=True)

    begun = time.monotonic()
    tell(error="ended while importing torch")  # replaced as soon as it has been imported
    try:
        import torch
    except BaseException as error:  # whatever a broken library raises
        tell(error=said(error))
        return
    tell(error="", seconds=time.monotonic() - begun, version=str(torch.__version__), cuda=torch.version.cuda)
    flags = getattr(torch._C, "_cuda_getArchFlags", str)()  # torch.cuda's own list is empty where no card is
    tell(architectures=(flags or "").split())
    tell(to_numpy=array_problem(torch))
    cards: list[dict[str, Any]] = []
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        cards.append({"index": index, "name": torch.cuda.get_device_name(index), "error": "ended in the kernel"})
        tell(cards=cards)
        cards[-1]["error"] = kernel_problem(torch, f"cuda:{index}")
        tell(cards=cards)


def array_problem(torch: Any) -> str:
    """Why a tensor cannot be turned into an array; empty if it can."""
    try:
        return "" if float(torch.ones(2).numpy().sum()) == 2.0 else "a tensor of ones became another array"
    except Exception as error:
        return said(error)


def kernel_problem(torch: Any, device: str) -> str:
    """Why a tiny product of matrices does not come out right on a card; empty if it does.

    Each entry of the product of two matrices of ones is ``SIDE``, so their sum is ``SIDE`` cubed.
    """
    try:
        ones = torch.ones(SIDE, SIDE, device=device)
        total = float((ones @ ones).sum().item())
    except Exception as error:
        return said(error)
    return "" if total == SIDE**3 else f"a sum that is {SIDE**3} came out as {total}"


def said(error: BaseException) -> str:
    """The error in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


if __name__ == "__main__":
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    main(results)

"""The doctor: look at everything at once, then judge it with one small function per check."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from trainwright.doctor import cards, disks, host, libraries, network, network_checks, packages, platforms, torch_here
from trainwright.doctor.network import Hub
from trainwright.doctor.records import Asked, Check, Facts, Weights
from trainwright.machine.look import look

RULES = (
    *packages.CHECKS,
    *torch_here.CHECKS,
    *cards.CHECKS,
    *host.CHECKS,
    *disks.CHECKS,
    *network_checks.CHECKS,
    *platforms.CHECKS,
    *libraries.CHECKS,
)


def examine(asked: Asked | None = None, hubs: Sequence[Hub] = ()) -> list[Check]:
    """Every check of this machine, for a recipe if one is given."""
    return judge(see(asked, hubs))


def see(asked: Asked | None = None, hubs: Sequence[Hub] = ()) -> Facts:
    """Everything that the checks judge. What takes longest goes on beside the rest."""
    machine = look()
    readings = cards.see_cards(machine.gpus)  # before torch opens them: its own use must not count
    torch = torch_here.start_torch()
    answers = network.start_network(hubs, os.environ)
    installed = packages.see_packages()
    seen = network.see_network(answers, os.environ)
    asked = with_listed_parameters(asked, seen.weights)
    return Facts(
        machine=machine,
        asked=asked,
        packages=installed,
        cards=readings,
        host=host.see_host(),
        places=disks.see_places(machine, asked, os.environ),
        network=seen,
        environment=dict(os.environ),
        torch=torch_here.read_torch(torch),
    )


def with_listed_parameters(asked: Asked | None, weights: Sequence[Weights]) -> Asked | None:
    """The size of a model that is still to be fetched is what the hub lists for it."""
    listed = next((answer.parameters for answer in weights if answer.given and answer.parameters), None)
    if asked is None or asked.parameters is not None or listed is None:
        return asked
    return replace(asked, parameters=listed)


def judge(facts: Facts) -> list[Check]:
    """What every rule says of the facts."""
    return [check for rule in RULES for check in rule(facts)]

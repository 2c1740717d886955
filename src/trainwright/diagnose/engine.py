"""Ask every rule, and put what it found in order."""

from __future__ import annotations

from trainwright.diagnose.facts import facts_of
from trainwright.diagnose.rules import RULES
from trainwright.records import Finding
from trainwright.runs.folder import RunFolder

_ORDER = {"error": 0, "warning": 1, "note": 2}


def diagnose(folder: RunFolder) -> list[Finding]:
    """Findings about a run, whatever state it is in: errors first, then warnings, then notes.

    What the data audit found is in data.json and is not repeated here.
    """
    facts = facts_of(folder)
    known = {finding.id for finding in facts.noted}
    ruled = [finding for rule in RULES if (finding := rule(facts)) and finding.id not in known]
    found = [*facts.noted, *ruled]
    return sorted(found, key=lambda finding: _ORDER[finding.severity])

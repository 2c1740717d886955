"""What the facts of the data mean: every rule is asked, and what they find is the audit.

An error refuses the run, a warning deserves a look, a note is worth knowing.
"""

from __future__ import annotations

from typing import Any

from trainwright.data import rules_rows, rules_text
from trainwright.data.request import DataRequest
from trainwright.data.rules_rows import Seen
from trainwright.errors import DataError
from trainwright.records import Audit

RULES = (
    rules_rows.one_class,
    rules_rows.empty_text,
    rules_rows.few_rows,
    rules_rows.duplicates,
    rules_rows.conflicting_labels,
    rules_rows.near_duplicates,
    rules_rows.overlap,
    rules_rows.near_overlap,
    rules_rows.imbalance,
    rules_rows.rare_label,
    rules_rows.similar_labels,
    rules_text.truncation,
    rules_text.long_text,
    rules_text.replacement_characters,
    rules_text.unknown_tokens,
    rules_text.long_record,
    rules_text.reading_notes,
)


def audit_of(request: DataRequest, facts: dict[str, dict[str, Any]]) -> Audit:
    """Judge the facts of each split; errors come first."""
    seen = Seen(facts, request.empty_rows == "refuse", request.model_max_length)
    found = [finding for rule in RULES for finding in rule(seen)]
    return Audit(sorted(found, key=lambda finding: ("error", "warning", "note").index(finding.severity)), facts)


def refusal(audit: Audit) -> DataError | None:
    """The error for an audit that has errors; it carries the audit as ``audit``. None if it has none."""
    errors = [finding for finding in audit.findings if finding.severity == "error"]
    if not errors:
        return None
    error = DataError("\n".join(item.message for item in errors), "\n".join(item.remedy for item in errors))
    error.audit = audit  # type: ignore[attr-defined]  # for whoever writes it into the run folder
    return error

from dataclasses import replace

import pytest

from trainwright.doctor.platforms import what_stops_the_bill, where_it_is


def only(check_function, facts):
    (check,) = check_function(facts)
    return check


def test_autodl_is_known_by_its_variable_or_its_files(facts_of):
    facts = facts_of("autodl-a100")
    assert "its files" in only(where_it_is, facts).message
    known = replace(facts, environment={"AutoDLContainerUUID": "x", "AutodlAutoPanelToken": "secret"})
    check = only(where_it_is, known)
    assert "AutoDLContainerUUID" in check.message
    assert "secret" not in repr(check)


def test_on_autodl_shutting_down_stops_the_bill_and_is_never_done_for_the_user(facts_of):
    check = only(what_stops_the_bill, facts_of("autodl-a100"))
    assert check.fix.command == "/usr/bin/shutdown"
    assert not check.fix.safe
    assert "15" in check.message


@pytest.mark.parametrize(("variable", "name"), [("SLURM_JOB_ID", "Slurm"), ("COLAB_RELEASE_TAG", "Colab")])
def test_other_places_are_named_by_what_they_set(facts_of, variable, name):
    facts = replace(facts_of(), environment={variable: "17"})
    assert name in only(where_it_is, facts).message


def test_a_job_of_a_cluster_is_ended_by_its_number(facts_of):
    facts = replace(facts_of(), environment={"SLURM_JOB_ID": "17"})
    assert only(what_stops_the_bill, facts).fix.command == "scancel 17"


def test_what_is_not_known_is_not_available(facts_of):
    assert only(what_stops_the_bill, facts_of()).verdict == "not available"

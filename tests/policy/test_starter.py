"""The policy that `omnigraph policy starter` prints."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.cli.commands.clusters import STARTER
from omnigraph.policy.ask import ACTIONS
from omnigraph.policy.bundle import policy_of
from omnigraph.policy.simulate import extent

POLICY = policy_of({"starter.yaml": STARTER}, "people")
OF_GRAPHS = [action for action, scope in ACTIONS.items() if scope != "server"]
WRITER = {
    **dict.fromkeys(["read", "export"], "all"),
    **dict.fromkeys(["change", "branch_create", "branch_merge"], "unprotected"),
}


@pytest.mark.parametrize(
    ("actor", "expected"),
    [
        ("act-admin", dict.fromkeys(OF_GRAPHS, "all")),
        ("act-writer", WRITER),
        ("act-reader", dict.fromkeys(["read", "export"], "all")),
        ("act-agent", {}),
        ("act-nobody", {}),
    ],
)
def test_each_group_may_what_its_name_says(actor: str, expected: dict[str, str]) -> None:
    assert {action: extent(POLICY, actor, action) for action in OF_GRAPHS} == {
        action: expected.get(action, "none") for action in OF_GRAPHS
    }


def test_an_agent_may_invoke_its_query_and_no_other() -> None:
    assert POLICY.decide("act-agent", og.AccessRequest("invoke_query", query="find_person")).allowed
    assert not POLICY.decide("act-agent", og.AccessRequest("invoke_query", query="everyone")).allowed
    assert POLICY.decide("act-agent", og.AccessRequest("read", branch="main", query="find_person")).allowed
    assert not POLICY.decide("act-agent", og.AccessRequest("read", branch="main", query="everyone")).allowed
    assert not POLICY.decide("act-agent", og.AccessRequest("read", branch="main")).allowed

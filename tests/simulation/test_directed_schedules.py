"""Rules that random schedules are too short to notice: each has a schedule of its own, which goes wrong when it is broken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from history.small_graph import SmallGraph
from history.sweeping import LATER_S, sweep
from simulation.broken_rules import Patch, broken, heads_are_remembered_as_of_now, watermark_can_fall

from omnigraph.errors import Damaged, HistoryGap
from omnigraph.testing.failpoints import Failpoint, arm, disarm_all


def a_writer_hears_of_its_commit_hours_later() -> None:
    """Meanwhile others have committed, and a cleanup has taken the entry after its own: that it finds nothing there does not
    make its own entry the newest."""
    writer = SmallGraph()
    writer.commits(2)

    def hours_pass() -> None:
        disarm_all()
        others = writer.again()
        others.commits(6)
        writer.clock.now += LATER_S
        assert sweep(others.again().history, "main") > 6
        others.commit()

    arm(Failpoint.PUBLISH_BEFORE_ACK, hours_pass)
    own = writer.commit()
    newest = writer.again().head()
    assert newest.position > own.ref.position + 1
    assert writer.head() == newest


def a_cleanup_is_overtaken_by_one_that_keeps_less() -> None:
    """It raises its lower watermark last: what the other has removed is still known to be removed."""
    graph = SmallGraph()
    graph.commits(9)

    def another_cleanup() -> None:
        disarm_all()
        assert sweep(graph.again().history, "main", keep=2) == 8

    arm(Failpoint.SWEEP_BEFORE_WATERMARK, another_cleanup)
    sweep(graph.again().history, "main", keep=7)
    with pytest.raises(HistoryGap):
        graph.again().history.chain.read("main", 5)


SCHEDULES: dict[Patch, Callable[[], None]] = {
    heads_are_remembered_as_of_now: a_writer_hears_of_its_commit_hours_later,
    watermark_can_fall: a_cleanup_is_overtaken_by_one_that_keeps_less,
}


@pytest.mark.parametrize("rule", SCHEDULES, ids=lambda rule: rule.__name__)
def test_a_broken_rule_is_noticed_by_its_own_schedule(rule: Patch) -> None:
    SCHEDULES[rule]()
    with broken(rule), pytest.raises((AssertionError, Damaged)):
        SCHEDULES[rule]()

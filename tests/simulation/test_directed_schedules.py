"""Rules that random schedules are too short to notice: each has a schedule of its own, which goes wrong when it is broken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from history.small_graph import SmallGraph
from history.sweeping import LATER_S, sweep
from simulation.broken_rules import (
    Patch,
    broken,
    heads_are_remembered_as_of_now,
    stalls_are_not_seen,
    surpassed_watermarks_and_cutoffs_go_at_once,
    watermark_can_fall,
)

from omnigraph.errors import Damaged, HistoryGap
from omnigraph.storage.store import ObjectInfo
from omnigraph.testing.failpoints import Failpoint, arm, disarm_all
from omnigraph.testing.stores import CountingStore


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


class StalledReads(CountingStore):
    """The next read of an object takes hours, in which something happens."""

    meanwhile: Callable[[], object] | None = None

    def get(self, key: str) -> bytes:
        action, self.meanwhile = self.meanwhile, None
        if action is not None:
            action()
        return super().get(key)


def a_reader_waits_for_hours_for_the_entry_after_its_head() -> None:
    """When the answer comes, a cleanup has taken that entry: that there is none does not make its own head the newest."""
    graph = SmallGraph()
    graph.commits(2)
    reader = graph.again()
    store = StalledReads(graph.store)
    reader.history.chain.store = store
    known = reader.head()

    def hours_pass() -> None:
        others = graph.again()
        others.commits(6)
        graph.clock.now += LATER_S
        assert sweep(others.again().history, "main") > 6

    store.meanwhile = hours_pass
    newest = reader.head()
    assert store.meanwhile is None
    assert newest.position > known.position + 1
    assert newest == graph.again().head()


class TornListings(CountingStore):
    """A listing takes a while, in which something happens, and shows what was there from its beginning to its end."""

    meanwhile: Callable[[], object] | None = None

    def list(self, prefix: str, *, limit: int | None = None) -> list[ObjectInfo]:
        listed = super().list(prefix)
        action, self.meanwhile = self.meanwhile, None
        if action is not None and listed:
            action()
            there = {info.key for info in super().list(prefix)}
            listed = [info for info in listed if info.key in there]
        else:
            self.meanwhile = action
        return listed[:limit]


def a_watermark_is_looked_for_while_it_is_raised() -> None:
    """On disk a listing may show neither the watermark that was there nor the one that takes its place."""
    graph = SmallGraph()
    graph.commits(9)
    store = TornListings(graph.store)
    reader = graph.again()
    reader.history.chain.store = store
    sweep(graph.again().history, "main", keep=7)
    store.meanwhile = lambda: sweep(graph.again().history, "main", keep=2)
    with pytest.raises(HistoryGap):
        reader.history.chain.read("main", 0)


def a_cutoff_is_looked_for_while_it_is_raised() -> None:
    graph = SmallGraph()
    retention = graph.again().history.retention
    retention.raise_cutoff(1_000.0)
    store = TornListings(graph.store)
    reader = graph.again().history.retention
    reader.store = store
    store.meanwhile = lambda: retention.raise_cutoff(2_000.0)
    assert reader.cutoff() >= 1_000.0


SCHEDULES: tuple[tuple[Patch, Callable[[], None]], ...] = (
    (heads_are_remembered_as_of_now, a_writer_hears_of_its_commit_hours_later),
    (stalls_are_not_seen, a_reader_waits_for_hours_for_the_entry_after_its_head),
    (watermark_can_fall, a_cleanup_is_overtaken_by_one_that_keeps_less),
    (surpassed_watermarks_and_cutoffs_go_at_once, a_watermark_is_looked_for_while_it_is_raised),
    (surpassed_watermarks_and_cutoffs_go_at_once, a_cutoff_is_looked_for_while_it_is_raised),
)


@pytest.mark.parametrize(("rule", "schedule"), SCHEDULES, ids=lambda part: part.__name__)
def test_a_broken_rule_is_noticed_by_its_own_schedule(rule: Patch, schedule: Callable[[], None]) -> None:
    schedule()
    with broken(rule), pytest.raises((AssertionError, Damaged)):
        schedule()

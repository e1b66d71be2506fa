"""Each rule of the protocol, broken on purpose. The simulation, or a schedule made for it, must notice every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
from simulation.schedule import SCHEMA_SEEDS

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import ObjectExists, StorageTransient
from omnigraph.history import branches
from omnigraph.history.chain import Chain, encode_entry, key_of, watermark_folder, watermark_key
from omnigraph.history.plan import PublishPlan
from omnigraph.history.publish import Attempt
from omnigraph.history.retention import Retention
from omnigraph.history.values import Commit, CommitStep, Entry, SteadyClock, WriteKey
from omnigraph.history.write_keys import WriteKeys
from omnigraph.maintenance import cleanup
from omnigraph.maintenance.cleanup import Cleaner, Survey
from omnigraph.maintenance.reachable import Reachable, Retained
from omnigraph.storage.store import ObjectInfo
from omnigraph.write.publishing import Write

Patch = Callable[[pytest.MonkeyPatch], None]


def taken_position_is_ours(patch: pytest.MonkeyPatch) -> None:
    """A create that meets an object takes it for its own, without reading it."""

    def create(self: Chain, entry: Entry, *_: object) -> Entry | None:
        with suppress(ObjectExists, StorageTransient):
            self.store.create(key_of(entry.branch, entry.position), encode_entry(entry))
        return entry

    patch.setattr(Chain, "_create", create)


def taken_position_is_anothers(patch: pytest.MonkeyPatch) -> None:
    """A create that meets an object, or hears nothing, takes it for somebody else's, and nobody looks for the commit."""

    def create(self: Chain, entry: Entry, *_: object) -> Entry | None:
        try:
            self.store.create(key_of(entry.branch, entry.position), encode_entry(entry))
        except (ObjectExists, StorageTransient):
            return None
        return entry

    patch.setattr(Chain, "_create", create)
    patch.setattr(Attempt, "published", lambda *_: None)


def own_bytes_are_remembered(patch: pytest.MonkeyPatch) -> None:
    """An entry found with our id is taken to have our bytes, though another process published the same plan."""
    create = Chain._create
    patch.setattr(
        Chain,
        "_create",
        lambda self, entry, *others: entry if create(self, entry, *others) is not None else None,
    )


def published_plans_are_published_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attempt, "published", lambda *_: None)


def strict_changes_are_carried_over(patch: pytest.MonkeyPatch) -> None:
    """Nothing is checked again when somebody else was first."""
    patch.setattr(Attempt, "carries", lambda *_: True)
    patch.setattr(Write, "stage_on", lambda _self, plan, _attempt: plan)


def read_tables_may_move(patch: pytest.MonkeyPatch) -> None:
    """Tables a plan relied on are not looked at (write skew)."""
    moved = Attempt.moved
    patch.setattr(Attempt, "moved", lambda self, plan: moved(self, replace(plan, reads=())))


def schemas_may_move(patch: pytest.MonkeyPatch) -> None:
    """A plan is put on whatever schema is there, its own change of it too."""
    moved = Attempt.moved
    patch.setattr(Attempt, "moved", lambda self, plan: moved(self, replace(plan, schema=self.snapshot.schema)))


def neighbours_may_change_the_schema(patch: pytest.MonkeyPatch) -> None:
    """Plans are staged together whatever schema they were made for."""
    adds_only = Attempt.adds_only
    patch.setattr(Attempt, "adds_only", lambda self, plan: adds_only(self, replace(plan, schema=self.snapshot.schema)))


def groups_judge_by_id(patch: pytest.MonkeyPatch) -> None:
    """A plan rebased on a neighbour of its group stays there although that neighbour moved."""
    moved = Attempt.moved

    def by_id(self: Attempt, plan: PublishPlan) -> set[str]:
        return set() if plan.base.id == self.snapshot.commit.id else moved(self, plan)

    patch.setattr(Attempt, "moved", by_id)


def deleted_branches_are_written(patch: pytest.MonkeyPatch) -> None:
    """The incarnation of a branch is not looked at: a plan goes to whatever has the name now."""
    patch.setattr(Attempt, "_check_incarnation", lambda self, plan: None)


def everybody_may_join(patch: pytest.MonkeyPatch) -> None:
    """Plans that are staged together are not asked whether they fit."""
    patch.setattr(Attempt, "adds_only", lambda self, plan: True)


def branches_are_made_before_their_commit(patch: pytest.MonkeyPatch) -> None:
    """A plan that makes its branch makes an empty one first."""

    def opening_entry(self: Attempt, opening: Entry) -> Entry:
        self._publisher.chain.append(opening, prepared_at=self.head.seen_at)
        return replace(real(self, opening), op="commit", position=opening.position + 1)

    real = Attempt._opening_entry
    patch.setattr(Attempt, "_opening_entry", opening_entry)


def new_branches_may_be_old(patch: pytest.MonkeyPatch) -> None:
    """A plan that wants a new branch joins the one that somebody made meanwhile."""
    check = Attempt._check_incarnation
    patch.setattr(Attempt, "_check_incarnation", lambda self, plan: check(self, replace(plan, new_branch=False)))


def deleted_incarnations_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A plan that made its branch is looked for in the branch of that name now, not in those that were deleted."""

    def published(self: Attempt, plan: PublishPlan) -> Commit | None:
        newest = self.head.entry
        return None if newest is None or not newest.alive else self._publisher.log.find(newest, plan.commit_id)

    patch.setattr(Attempt, "published", published)


def incarnations_are_named_by_branch_alone(patch: pytest.MonkeyPatch) -> None:
    """A branch made again is taken for the old one."""
    patch.setattr(branches, "new_incarnation", lambda branch, position, entry_id: f"{branch}@0.same")


def swept_positions_are_reused(patch: pytest.MonkeyPatch) -> None:
    """A writer that was away for long does not look at the watermark."""
    patch.setattr(Chain, "_was_in_chain", lambda self, entry: True)


def only_the_wall_clock_counts(patch: pytest.MonkeyPatch) -> None:
    """A process whose clock was set back while it was away believes that no time has passed."""
    patch.setattr(SteadyClock, "__call__", lambda self: self._sources[0]())


def cleanup_takes_young_things(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cleanup, "GRACE_S", 0.0)


def fences_supersede_commits(patch: pytest.MonkeyPatch) -> None:
    """A commit is not kept for an hour after another one took its place, if there was a fence in between."""
    patch.setattr(Retained, "add_recent", lambda *_: None)


def cleanup_without_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Retention, "raise_watermark", lambda *_: None)


def cleanup_without_fences(patch: pytest.MonkeyPatch) -> None:
    """A writer that was stopped before its create gets the position after cleanup has taken its files."""
    patch.setattr(Retention, "fence", lambda *_: None)


def cleanup_without_cutoff(patch: pytest.MonkeyPatch) -> None:
    """A writer that lost the position to a fence cannot find out that its files are gone."""
    patch.setattr(Retention, "raise_cutoff", lambda *_: None)


def late_writers_do_not_look_at_the_cutoff(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Retention, "check_staged", lambda *_: None)


def cleanup_looks_once(patch: pytest.MonkeyPatch) -> None:
    """What was published, tagged or prepared since the first look is not seen."""

    def unneeded(self: Cleaner, survey: Survey) -> tuple[list[ObjectInfo], list[ObjectInfo]]:
        entries = [survey.chains[branch][position] for branch in survey.doomed for position in survey.doomed[branch]]
        return entries, list(survey.garbage)

    patch.setattr(Cleaner, "_unneeded", unneeded)


def cleanup_takes_what_plans_need(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reachable, "add_plan", lambda *_: None)


def cleanup_marks_heads_only(patch: pytest.MonkeyPatch) -> None:
    """Entries that stay for a tag, or because they are young, keep none of their files."""
    read = Cleaner._read

    def heads_only(self: Cleaner, places: Sequence[tuple[str, int]]) -> list[Entry]:
        newest = {branch: max(p for b, p in places if b == branch) for branch, _ in places}
        return [entry for entry in read(self, places) if newest[entry.branch] == entry.position]

    patch.setattr(Cleaner, "_read", heads_only)


def stalls_are_not_seen(patch: pytest.MonkeyPatch) -> None:
    """A head read across hours counts as read now."""

    def newest(self: Chain, branch: str, *, is_moving: bool = False) -> Entry | None:
        started = self.clock()
        entry = self._followed(branch, started) or self._listed(branch)
        return None if entry is None else self._remember(entry, started)

    patch.setattr(Chain, "newest", newest)


def heads_are_remembered_as_of_now(patch: pytest.MonkeyPatch) -> None:
    """A head is remembered with the time of the answer, not with that of the question."""
    remember = Chain._remember
    patch.setattr(Chain, "_remember", lambda self, entry, seen_at: remember(self, entry, self.clock()))


def watermark_can_fall(patch: pytest.MonkeyPatch) -> None:
    """The watermark of the last cleanup counts, even a lower one."""

    def lower(self: Retention, branch: str, floor: int) -> None:
        reach(Failpoint.SWEEP_BEFORE_WATERMARK)
        kept = watermark_key(branch, floor)
        self.store.put(kept, b"{}")
        self.store.delete_many([info.key for info in self.store.list(watermark_folder(branch)) if info.key != kept])

    patch.setattr(Retention, "raise_watermark", lower)


def surpassed_watermarks_and_cutoffs_go_at_once(patch: pytest.MonkeyPatch) -> None:
    """Whoever lists them at that moment may find none."""

    def delete(self: Retention, folder: str) -> None:
        self.store.delete_many([info.key for info in self.store.list(folder)[1:]])

    patch.setattr(Retention, "_delete_surpassed", delete)


def tags_ignore_the_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Retention, "check_kept", lambda *_: None)


def keys_are_looked_for_only_before_the_publish(patch: pytest.MonkeyPatch) -> None:
    """A key that came meanwhile is not seen."""
    patch.setattr(Attempt, "repeated", lambda self, plan: None)


def neighbours_do_not_see_each_others_keys(patch: pytest.MonkeyPatch) -> None:
    committed = WriteKeys.committed
    patch.setattr(WriteKeys, "committed", lambda self, key, entry, steps=(): committed(self, key, entry))


def keys_are_forgotten_when_they_are_rolled_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WriteKeys, "following", lambda self, entry, *, rolled: ())


def sequences_may_go_back(patch: pytest.MonkeyPatch) -> None:
    """Only the last number of a sequence is known."""

    def committed(self: WriteKeys, key: WriteKey, entry: Entry, steps: Sequence[CommitStep] = ()) -> Commit | None:
        recent = (*entry.tail, *(step.commit for step in (*entry.steps, *steps)))
        for commit in reversed(recent):
            if commit._write_key is not None and commit._write_key.name == key.name:
                return commit if commit._write_key.number == key.number else None
        return None

    patch.setattr(WriteKeys, "committed", committed)


RULES: Mapping[Patch, tuple[int, ...]] = {
    taken_position_is_ours: (0, 1, 2),
    taken_position_is_anothers: (21, 58, 35),
    own_bytes_are_remembered: (69_312, 7_309, 64_322),
    published_plans_are_published_again: (21, 109, 266),
    strict_changes_are_carried_over: (0, 1, 23),
    read_tables_may_move: (147, 487, 347),
    schemas_may_move: (SCHEMA_SEEDS + 18, SCHEMA_SEEDS + 31, SCHEMA_SEEDS + 23),
    neighbours_may_change_the_schema: (SCHEMA_SEEDS + 312, SCHEMA_SEEDS + 91, SCHEMA_SEEDS + 131),
    groups_judge_by_id: (441, 226, 59),
    deleted_branches_are_written: (477, 427, 119),
    everybody_may_join: (1_971, 8_341, 6_497),
    branches_are_made_before_their_commit: (3, 85, 8),
    new_branches_may_be_old: (477, 427, 1_214),
    deleted_incarnations_are_forgotten: (21, 109, 266),
    incarnations_are_named_by_branch_alone: (7_416, 3_334, 13_697),
    swept_positions_are_reused: (5_100, 37_786, 8_195),
    only_the_wall_clock_counts: (18_582, 6_655, 3_605),
    cleanup_takes_young_things: (6_480, 3_478, 1_370),
    fences_supersede_commits: (1_266, 6_925, 1_661),
    cleanup_without_watermark: (6, 13, 2),
    cleanup_without_fences: (9_603, 6_655, 37_277),
    cleanup_without_cutoff: (9_603, 2_737, 3_605),
    late_writers_do_not_look_at_the_cutoff: (5_100, 2_737, 1_115),
    cleanup_looks_once: (132, 592, 1_220),
    cleanup_takes_what_plans_need: (68_061, 35_503, 9_638),
    cleanup_marks_heads_only: (3, 103, 20),
    tags_ignore_the_watermark: (4_128, 4_213, 1_496),
    keys_are_looked_for_only_before_the_publish: (3, 10, 17),
    neighbours_do_not_see_each_others_keys: (36, 10, 29),
    keys_are_forgotten_when_they_are_rolled_up: (162, 43, 143),
    sequences_may_go_back: (3, 10, 17),
}
"""For each bound of inline rows the first schedule that notices it. A protocol that makes other requests has other schedules:
`replay.py --rules` finds them."""


@contextmanager
def broken(rule: Patch) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        rule(patch)
        yield

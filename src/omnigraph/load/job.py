"""Load: read and check in many tasks, stage, and publish once. One commit or none."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import (
    AlreadyExists,
    Conflict,
    ExpectedVersionMismatch,
    InputError,
    KeyConflict,
    NotFound,
    OmnigraphError,
    PreconditionFailed,
    StorageError,
    UnreadableInput,
)
from omnigraph.history.plan import PreparedPlan, PublishPlan, TableChange
from omnigraph.history.values import Commit, WriteKey
from omnigraph.indexing.adjacency import refresh_after
from omnigraph.language.catalog import Catalog, EdgeType, NodeType
from omnigraph.load.assembly import LoadStaging
from omnigraph.load.checks import with_edges
from omnigraph.load.explaining import LoadBase, SessionReader
from omnigraph.load.files import STDIN
from omnigraph.load.fragments import TypeReport
from omnigraph.load.inputs import Frame, LoadInputs, Sources, by_type, find_inputs
from omnigraph.load.lineage import lineage_of
from omnigraph.load.locate import locate, locations
from omnigraph.load.missing import MissingIds, described, find_missing, rejects_of, without_missing, write_stubs
from omnigraph.load.options import LoadOptions
from omnigraph.load.reading import ReadReport, ReadTask, read_batches, read_bundle
from omnigraph.load.rebasing import CheckedLoad, LoadRebase, add_recovery_hint, forget, publish
from omnigraph.load.receipt import FORMS, LoadCounts, LoadReceipt, MissingNodes, StagedRows, as_stored, stage_incoming
from omnigraph.load.record_starts import with_record_starts
from omnigraph.load.refusals import BrokenRule
from omnigraph.load.rejects import (
    RejectsFile,
    origins,
    refuse_rejected,
    refuse_unreadable,
    rejected_by_reason,
    rejects_file,
    request_of,
)
from omnigraph.load.small import SmallLoad
from omnigraph.load.typed_frames import FrameReader
from omnigraph.load.written import WrittenFiles, merge_small_fragments, superseded_files
from omnigraph.records.ids import FreshIds
from omnigraph.records.rows import Reject
from omnigraph.rules.endpoints import ends_of
from omnigraph.snapshot import Repository, View
from omnigraph.spark.runner import SparkRunner
from omnigraph.tables.addresses import RowSet
from omnigraph.tables.staging import Staged
from omnigraph.tasks.engines import choose_engine, engine_with_reader, make_runner
from omnigraph.tasks.progress import Progress, Silent, Stage, sum_stages
from omnigraph.tasks.runner import LocalRunner, Runner
from omnigraph.tasks.target import TableVersions, Target, table_versions_of
from omnigraph.write.group import GroupCommitter
from omnigraph.write.inlining import bounds
from omnigraph.write.publishing import publish as publish_plan
from omnigraph.write.transaction import WriteTransaction

FRAME_BATCH_ROWS = 65_536
_REFUSALS = (Conflict, InputError, NotFound, AlreadyExists)
"""Errors that mean the load does not fit the branch: they go to the caller, and the plan is not kept."""
READING = "read"
"""The name of the stages that read records; for a DataFrame, followed by its type."""


def load(
    repository: Repository,
    sources: Sources,
    options: LoadOptions,
    progress: Progress | None = None,
    committer: GroupCommitter | None = None,
) -> LoadReceipt:
    """Load files, folders, globs, addresses or data frames as one commit, or nothing.

    Records that cannot be read, or break a rule about values, refuse the load with RejectedRecords, unless the options name a
    file to set them aside in. A file that cannot be read at all (UnreadableInput) and broken rules between records always
    refuse it.
    """
    began, branch = time.monotonic(), options.branch
    sources, name = by_type(sources, options.type), options.key_name
    with _spool(sources) as spool:
        existing: AlreadyExists | None = None
        try:
            base = LoadBase.of(repository, branch, options.from_, options.new_branch)
        except AlreadyExists as error:
            if name is None:
                raise
            existing, base = error, LoadBase.of(repository, branch)
        inputs, runner, reason = _prepare(repository, sources, options, base.view.catalog, spool, progress or Silent())
        key = (
            None
            if name is None
            else name.asking(options.request or request_of(inputs, base.view.catalog, options.mode))
        )
        if (commit := base.committed(repository, key)) is not None:
            return with_empty_branch(repository, base, LoadReceipt.of_repeated(branch, options.mode, commit))
        if existing is not None:  # Not by an earlier try of this load.
            raise existing
        head = base.view.snapshot.commit
        if options.if_commit is not None and head.id != options.if_commit:
            raise PreconditionFailed(branch, options.if_commit, head.id)
        with (
            lineage_of(repository.store.uri, branch, sources, options.reader_options) as lineage,
            repository.history.leases.hold(head.ref),
            repository.history.retention.explaining(branch, base.since),
            rejects_file(
                options.rejects, repository.tables.options, repository.store, replace=key is not None
            ) as aside,
        ):
            base = base.for_trial() if options.dry_run else base
            if not options.dry_run:
                lineage.started()
            written = WrittenFiles(runner.stopping if isinstance(runner, LocalRunner) else None)
            inputs = with_record_starts(inputs, runner)
            group = committer or GroupCommitter(repository)
            receipt = LoadJob(repository, base, inputs, options, runner, aside, written, key, group).run()
            if not options.dry_run:
                lineage.completed(base.view, receipt)
        return replace(
            receipt,
            engine="in process" if isinstance(runner, LocalRunner) else "on Spark",
            engine_reason=reason,
            seconds=time.monotonic() - began,
            stages=_stages(runner, receipt.rejected),
        )


def _prepare(
    repository: Repository,
    sources: Sources,
    options: LoadOptions,
    catalog: Catalog,
    spool: str | None,
    progress: Progress,
) -> tuple[LoadInputs, Runner, str]:
    """The inputs, the runner, and why that engine was chosen."""
    uri = repository.store.uri
    reader = SessionReader.of(sources, options)
    if reader is not None:
        choice = engine_with_reader(options.engine, reader.format)
        runner = make_runner(choice.engine, uri, progress, "load", options.conf)
        assert isinstance(runner, SparkRunner), "a format that Spark reads has no other engine"
        frames = reader.frames(runner.session, catalog)
        _check_frames(frames, options, catalog)
        return LoadInputs((), frames), runner, choice.reason
    located = find_inputs(sources, catalog, options, repository.tables.options or None, spool)
    _check_frames(located.frames, options, catalog)
    choice = choose_engine(options.engine, uri, located.text_bytes, located.session)
    runner = make_runner(choice.engine, uri, progress, "load", options.conf)
    fresh = FreshIds.new(repository.history.clock)
    return located.cut(runner.parallelism, fresh, runner.settings), runner, choice.reason


def _check_frames(frames: Sequence[Frame], options: LoadOptions, catalog: Catalog) -> None:
    """UnreadableInput for columns that the type of a Spark DataFrame does not have, before Spark computes any row of it."""
    for frame in frames:
        if frame.is_spark:
            from omnigraph.spark.types import refuse_intervals

            try:
                refuse_intervals(frame.rows.schema)
                FrameReader(catalog, frame.key, "type", FreshIds.new(), FORMS[options.mode]).check(frame.rows.columns)
            except UnreadableInput as error:
                error.file = frame.name
                raise


def _spool(sources: Any) -> contextlib.AbstractContextManager[str | None]:
    """A temporary folder for standard input, if that is a source."""
    listed = sources if isinstance(sources, list | tuple) else [sources]
    if any(isinstance(source, str) and source == STDIN for source in listed):
        return tempfile.TemporaryDirectory(prefix="omnigraph-", ignore_cleanup_errors=True)
    return contextlib.nullcontext()


def _stages(runner: Runner, rejected: int) -> tuple[Stage, ...]:
    """The stages of the load. Rejected records are counted in the stage that reads."""
    stages = sum_stages(runner.stages)
    reading = next((number for number, stage in enumerate(stages) if stage.stage.startswith(READING)), None)
    if reading is None:
        return tuple(stages)
    return (*stages[:reading], replace(stages[reading], rejected=rejected), *stages[reading + 1 :])


@dataclass
class Gaps:
    """What was done about edges that name missing nodes."""

    missing: tuple[MissingNodes, ...] = ()
    skipped: dict[str, int] = field(default_factory=dict)
    stubs: dict[str, int] = field(default_factory=dict)
    rejects: dict[str, list[tuple[str, Reject]]] = field(default_factory=dict)
    """By the table of edges: those that were left out, by id, if there is a file for them."""

    @property
    def skipped_rows(self) -> int:
        return sum(self.skipped.values())

    def without_stubs(self, counts: Mapping[str, LoadCounts]) -> dict[str, LoadCounts]:
        return {key: replace(count, inserted=count.inserted - self.stubs.get(key, 0)) for key, count in counts.items()}


@dataclass(frozen=True)
class LoadJob:
    """One load on one pinned state."""

    repository: Repository
    base: LoadBase
    inputs: LoadInputs
    options: LoadOptions
    runner: Runner
    rejects: RejectsFile | None
    written: WrittenFiles
    once: WriteKey | None = None
    committer: GroupCommitter | None = None

    @cached_property
    def view(self) -> View:
        return self.base.view

    def run(self) -> LoadReceipt:
        with self._without_leftovers(self.base.folder if self.options.dry_run or self.rejects is not None else None):
            reports = self._read(None if self.rejects is None else self.base.folder)
            reach(Failpoint.LOAD_AFTER_READ)
            receipt = self._publish_small(reports) if self._max_held_rows else None
            if receipt is not None:
                return receipt
            for report in reports:
                if report.held is not None:
                    report.held.write()
            return self.finish(merge_reports(reports))

    @cached_property
    def _max_held_rows(self) -> int:
        """How many rows of a table may be published inline; 0 if this load stages all of its rows."""
        is_local = isinstance(self.runner, LocalRunner) and self.committer is not None
        return bounds().rows if is_local and self.base.opening is None and not self.options.dry_run else 0

    def _publish_small(self, reports: list[ReadReport]) -> LoadReceipt | None:
        """The receipt of a load with few rows; None if it is none, or if it is refused: then the load of many rows says why."""
        mode, whole = self.options.mode, merge_reports(reports)
        held = [report.held for report in reports if report.held is not None]
        if len(held) < len(reports) or not all(rows.is_small for rows in held):
            return None
        if self.rejects is None:
            self._refuse_or_count(whole)
        elif any(split.rejected or split.problem for split in whole.splits):
            return None
        emptied = frozenset(self._given_without_rows(whole))
        if mode == "overwrite" and any(self.view.rows(key) > self._max_held_rows for key in (*whole.types, *emptied)):
            return None
        small = SmallLoad(self.view, mode, held, whole.types, emptied, self.options.permit)
        if small.has_equal_ids:
            return None
        assert self.committer is not None
        transaction = WriteTransaction(
            self.repository,
            self.committer,
            self.base.branch,
            actor=self.options.actor,
            message=self.options.message,
            if_commit=self.options.if_commit,
            at=(self.base.entry, self.view),
            kind="load",
        )
        try:
            transaction.run(small.run)
            if not transaction.is_small:
                return None
            duplicates = small.duplicates(transaction)
            reach(Failpoint.LOAD_BEFORE_PUBLISH)
            receipt = transaction.commit(self.once, commits_empty=self._keeps_nothing)
        except (InputError, KeyConflict, ExpectedVersionMismatch):
            return None
        reach(Failpoint.LOAD_AFTER_PUBLISH)
        if receipt.repeated and receipt.commit is not None:
            return LoadReceipt.of_repeated(self.base.branch, mode, receipt.commit)
        return LoadReceipt(
            self.base.branch, mode, small.counts, receipt.commit, self.options.actor, duplicates=duplicates
        )

    def finish(self, report: ReadReport) -> LoadReceipt:
        """From written fragments to the commit."""
        for key, of_type in report.types.items():
            self.written.note_fragments(self.view.path(key), of_type.fragments)
        with self._without_leftovers(None):
            return self._finish(report)

    @contextlib.contextmanager
    def _without_leftovers(self, folder: str | None) -> Iterator[None]:
        """Remove what the load has written if it ends without a commit or a prepared plan, and in any case the content of the
        folder."""
        try:
            yield
        finally:
            if not self.written.claimed:
                self.written.remove(self.repository.store)
            if folder is not None:
                with contextlib.suppress(StorageError):
                    self.repository.store.delete_prefix(folder)

    def _finish(self, report: ReadReport) -> LoadReceipt:
        mode, dry_run = self.options.mode, self.options.dry_run
        if (repeated := self.base.committed(self.repository, self.once)) is not None:
            return LoadReceipt.of_repeated(self.base.branch, mode, repeated)
        rejected = self._refuse_or_count(report)
        started = time.monotonic()
        named = {key: type.removed for key, type in report.types.items() if type.removed}
        removed = with_edges(self.view, named, self.runner)
        emptied = self._given_without_rows(report)
        types = {key: report.types.get(key, TypeReport()) for key in {*report.types, *removed, *emptied}}
        if self.options.permit is not None:
            self.options.permit(frozenset(table_key.partition(":")[2] for table_key in types))
        none = {key: LoadCounts(unchanged=type.absent) for key, type in types.items()}
        receipt = LoadReceipt(self.base.branch, mode, none, None, self.options.actor, rejected)
        written = {
            key: self._incoming(key, of_type, len(removed.get(key, ())))
            for key, of_type in sorted(types.items())
            if of_type.rows or key in removed or (key in emptied and self.view.rows(key))
        }
        gaps = self._close_gaps(written, types)
        receipt = replace(
            receipt, rejected=rejected + gaps.skipped_rows, missing=gaps.missing, skipped=gaps.skipped, stubs=gaps.stubs
        )
        self._set_aside(report, gaps)
        incoming = {key: rows for key, (rows, _) in written.items()}
        assembly = LoadStaging(
            self.view,
            incoming,
            mode,
            self.runner,
            lambda findings: self._find(findings, report),
            index=not dry_run,
            only_count=dry_run,
            named=named,
            absent={key: type.absent_ids for key, type in types.items() if type.absent_ids and type.rows},
            removed=removed,
            folder=self.base.folder,
        )
        with self.written.noting(assembly.staged):
            assembly.find_replaced()
            receipt = replace(receipt, types={**receipt.types, **gaps.without_stubs(assembly.counts())})
            if dry_run:
                assembly.changes()
                accepted, broken = assembly.accepted()
                accepted = gaps.without_stubs(accepted)
                receipt = replace(receipt, types={**receipt.types, **accepted}, rejected=receipt.rejected + broken)
                refusals = (*rejected_by_reason(report, origins(self.inputs, report)), *assembly.refusals)
                return replace(receipt, is_dry_run=True, refusals=refusals, duplicates=assembly.duplicates)
            if assembly.changes_nothing and not self._keeps_nothing:
                self._name_rejects()
                return with_empty_branch(self.repository, self.base, receipt)
            changes = assembly.changes()
        self.repository.tables.sync([*(staged for _, staged in written.values()), *assembly.staged])
        plan = self._plan(changes, assembly.reads())
        checked = CheckedLoad.of(assembly)
        rebase = LoadRebase(self.repository, mode, self.runner, checked)
        commit = self._publish(plan, rebase, receipt, time.monotonic() - started)
        if commit.id != plan.commit_id:
            return with_empty_branch(
                self.repository, self.base, LoadReceipt.of_repeated(self.base.branch, mode, commit)
            )
        counts = {
            key: (rebase.checked or checked).count(self.view.entity(key).id, rows, mode)
            for key, rows in incoming.items()
        }
        changed = [of_type.rows for of_type in report.types.values()]
        left_out = refresh_after(self.repository, commit, changed, self.runner)
        created = plan.opening is not None and commit.ref.opens_branch
        return replace(
            receipt,
            types={**receipt.types, **gaps.without_stubs(counts)},
            duplicates=assembly.duplicates,
            without_adjacency=left_out,
            commit=commit,
            branch_created=created,
            base_branch=self.base.source if created else None,
        )

    def _given_without_rows(self, report: ReadReport) -> set[str]:
        """Types that an overwrite empties: the input names them and has no rows for them."""
        return self.inputs.tables - report.types.keys() if self.options.mode == "overwrite" else set()

    @property
    def _keeps_nothing(self) -> bool:
        """Whether a load that changes nothing leaves a commit, to remember its key."""
        return self.options.key_name is not None and self.options.key_name.commits_empty

    def _publish(self, plan: PublishPlan, rebase: LoadRebase, receipt: LoadReceipt, patience_s: float) -> Commit:
        prepared = PreparedPlan(
            as_stored(plan),
            int(self.repository.history.wall_clock() * 1_000_000),
            {"total_entities": receipt.total_entities},
        )
        if not plan.changes:  # An empty load under a key stages nothing that could be resumed.
            self._name_rejects()
            return publish_plan(self.repository.history, plan)
        # From here until the plan is removed, anyone may publish it, so its files must not be removed.
        self.written.claimed = True
        history = self.repository.history
        history.recovery.keep(prepared, lambda: self._check_kept(plan))
        self._name_rejects()
        try:
            kept = replace(plan, kept_since=history.clock(), staged_since=None)
            return publish(self.repository, kept, rebase, patience_s=patience_s)
        except OmnigraphError as error:
            # What was staged for rows that have changed since cannot be resumed, though the load can be repeated.
            if isinstance(error, _REFUSALS) and (not error.retry or isinstance(error, ExpectedVersionMismatch)):
                forget(self.repository, plan)
            else:
                add_recovery_hint(error, plan)
            raise

    def _check_kept(self, plan: PublishPlan) -> None:
        """Check that cleanup has not removed what the plan names."""
        self.repository.history.retention.check_prepared(plan)
        self.base.check_protected(self.repository)

    # ------------------------------------------------------------ reading

    @cached_property
    def _target(self) -> Target:
        return Target.of(self.repository, self.view)

    def _read(self, rejects_folder: str | None) -> list[ReadReport]:
        reports = self.runner.map(READING, read_bundle, self._read_tasks(rejects_folder))
        for number, frame in enumerate(self.inputs.frames):
            reports += self._read_frame(frame, number, self._target, table_versions_of(self.view), rejects_folder)
        return reports

    def _read_tasks(self, rejects_folder: str | None = None) -> list[ReadTask]:
        versions, form, settings = table_versions_of(self.view), FORMS[self.options.mode], self.runner.settings
        return [
            ReadTask(
                self._target,
                bundle,
                versions,
                rejects_folder,
                self._noted_by_tasks,
                form,
                settings,
                self._max_held_rows,
            )
            for bundle in self.inputs.bundles()
        ]

    def _read_frame(
        self, frame: Frame, number: int, target: Target, versions: TableVersions, rejects_folder: str | None
    ) -> list[ReadReport]:
        fresh = FreshIds.new(self.repository.history.clock)
        read = partial(
            read_batches, form=FORMS[self.options.mode], settings=self.runner.settings, rejects_folder=rejects_folder
        )
        if frame.is_spark and isinstance(self.runner, SparkRunner):
            key = frame.key

            def task(partition: int, batches: Iterator[Any]) -> ReadReport:
                return read(target, key, versions, number, batches, fresh.part(partition))

            return self.runner.map_frame(f"{READING} {frame.key}", task, frame.rows)
        assert frame.key is not None, "frames are given by their types"
        batches = frame.to_arrow(target.catalog.tables[frame.key]).to_batches(max_chunksize=FRAME_BATCH_ROWS)
        local_runner = self.runner if isinstance(self.runner, LocalRunner) else LocalRunner()
        return local_runner.map(
            f"{READING} {frame.key}",
            lambda rows: read(
                target, frame.key, versions, number, rows, fresh, self.written, max_held_rows=self._max_held_rows
            ),
            [batches],
        )

    @cached_property
    def _noted_by_tasks(self) -> WrittenFiles | None:
        """Tasks in other processes cannot note what they write; they report it instead."""
        return self.written if isinstance(self.runner, LocalRunner) else None

    def _refuse_or_count(self, report: ReadReport) -> int:
        """Refuse the load for its rejected records, unless there is a file for them; returns their number."""
        where = origins(self.inputs, report)
        refuse_unreadable(report, where)
        if self.rejects is None and not self.options.dry_run:
            refuse_rejected(report, where)
        return sum(split.rejected for split in report.splits)

    def _set_aside(self, report: ReadReport, gaps: Gaps) -> None:
        """Write the rejected records, and the edges whose nodes are missing, to their file."""
        if self.rejects is None or self.options.dry_run:
            return
        skipped: list[tuple[int, Reject]] = []
        for key, rejects in gaps.rejects.items():
            wanted = frozenset((key, "id", id) for id, _ in rejects)
            tasks = self._read_tasks() if self.inputs.splits else []
            places = locations(wanted, tasks, self.runner) if tasks else {}
            frames = [number for number, frame in enumerate(self.inputs.frames) if frame.key in (key, None)]
            for id, reject in rejects:
                index, line = places.get((key, "id", id), (frames[0] if frames else 0, 0))
                skipped.append((index, replace(reject, line=line)))
        skipped.sort(key=lambda entry: (entry[0], entry[1].line))
        self.rejects.write(report, origins(self.inputs, report), skipped)

    def _close_gaps(self, written: dict[str, tuple[StagedRows, Staged]], types: Mapping[str, TypeReport]) -> Gaps:
        """Leave edges out whose nodes are missing, or create these nodes; changes what was written."""
        if self.options.missing == "refuse" or self.options.mode == "delete":
            return Gaps()
        incoming = {key: rows for key, (rows, _) in written.items()}
        missing = find_missing(self.view, incoming, self.options.mode, self.runner)
        gaps = Gaps(described(self.view, missing))
        for key, ends in missing.items() if self.options.missing == "skip" else ():
            before, staged = written[key]
            with_rows = self.rejects is not None and not self.options.dry_run
            parts = without_missing(self._target, before, ends, self.runner, self._noted_by_tasks, with_rows=with_rows)
            count = sum(part.count for part in parts)
            fragments = tuple(text for part in parts for text in part.fragments)
            self.written.note_fragments(staged.path, fragments)
            after = replace(types[key], rows=before.rows - count, fragments=list(fragments))
            self._replace_incoming(written, key, after)
            edge = self.view.entity(key)
            assert isinstance(edge, EdgeType), "only edges have ends"
            gaps.skipped[key] = count
            gaps.rejects[key] = [
                entry for part in parts if part.rows is not None for entry in rejects_of(edge, part.rows, ends)
            ]
        for key, ids in self._missing_nodes(missing).items() if self.options.missing == "stub" else ():
            node = self.view.entity(key)
            assert isinstance(node, NodeType), "edges end at nodes"
            fresh = FreshIds.new(self.repository.history.clock)
            if self.options.permit is not None:
                self.options.permit(frozenset([node.name]))
            stubs = write_stubs(self._target, table_versions_of(self.view), node, ids, fresh, self.written)
            known = ReadReport(types={key: types[key]}) if key in types else ReadReport()
            if stubs.rows:
                self._replace_incoming(written, key, merge_reports([known, ReadReport(types={key: stubs})]).types[key])
                gaps.stubs[key] = stubs.rows
        return gaps

    def _missing_nodes(self, missing: Mapping[str, MissingIds]) -> dict[str, dict[str, None]]:
        """By the table of nodes: the ids that edges name."""
        nodes: dict[str, dict[str, None]] = {}
        for key, ends in missing.items():
            edge = self.view.entity(key)
            assert isinstance(edge, EdgeType), "only edges have ends"
            for end, node in ends_of(edge):
                if end in ends:
                    nodes.setdefault(f"node:{node}", {}).update(dict.fromkeys(ends[end]))
        return nodes

    def _replace_incoming(self, written: dict[str, tuple[StagedRows, Staged]], key: str, of_type: TypeReport) -> None:
        """Stage other rows of a type than before."""
        before = written.pop(key, None)
        removed = 0 if before is None else before[0].removed
        if of_type.rows or removed or (self.options.mode == "overwrite" and self.view.rows(key)):
            written[key] = self._incoming(key, of_type, removed)
        if before is not None:
            files = {f"{before[1].path}/{file}" for file in before[1].files}
            after = written.get(key)
            self.written.remove(
                self.repository.store, only=files if after is None else superseded_files(before[1], after[1])
            )

    def _name_rejects(self) -> None:
        """Complete the file of rejects before publishing: a record that is not in the graph must be in the file."""
        if self.rejects is not None:
            self.rejects.finish()

    # ------------------------------------------------------------ plan

    def _plan(self, changes: tuple[TableChange, ...], reads: tuple[str, ...]) -> PublishPlan:
        return PublishPlan(
            commit_id=self.base.commit_id,
            branch=self.base.branch,
            incarnation=self.base.incarnation,
            base=self.view.snapshot.commit.ref,
            schema=self.view.snapshot.schema,
            changes=changes,
            reads=reads,
            read_states={key: self.view.state(key) for key in reads},
            kind="load",
            actor=self.options.actor,
            message=self.options.message,
            if_commit=self.options.if_commit,
            opening=self.base.opening,
            new_branch=self.base.new_branch,
            once=self.once,
            staged_since=self.base.since,
        )

    def _incoming(self, key: str, of_type: TypeReport, removed: int) -> tuple[StagedRows, Staged]:
        """Stage the new rows as a separate version, in fragments of a good size."""
        fragments, ids_may_clash = tuple(of_type.fragments), of_type.ids_may_clash
        incoming, staged = stage_incoming(self.view, key, of_type.rows, ids_may_clash, fragments)
        incoming = replace(incoming, removed=removed, absent=of_type.absent)
        table = self.view.staged(key, incoming.place.path, incoming.place.version)
        self.written.note_version(staged)
        repacked = merge_small_fragments(self._target, table, fragments, self.runner, self._noted_by_tasks)
        if repacked is None:
            return incoming, staged
        self.written.note_fragments(staged.path, repacked)
        whole, restaged = stage_incoming(self.view, key, of_type.rows, ids_may_clash, repacked)
        incoming = replace(incoming, fragments=whole.fragments, place=whole.place)
        self.written.note_version(restaged)
        self.written.remove(self.repository.store, only=superseded_files(staged, restaged))
        return incoming, restaged

    def _find(self, findings: list[BrokenRule], report: ReadReport) -> list[tuple[str | None, int | None]]:
        if not self.inputs.splits:
            return [(None, None)] * len(findings)
        where = origins(self.inputs, report)
        located: list[tuple[str | None, int | None]] = []
        for record in locate(findings, self._read_tasks(), self.runner):
            origin = None if record is None else where[record[0]]
            located.append((None, None) if record is None or origin is None else (origin.file, origin.line(record[1])))
        return located


def with_empty_branch(repository: Repository, base: LoadBase, receipt: LoadReceipt) -> LoadReceipt:
    """The receipt of a load that changes nothing. Its branch is created all the same if one was requested."""
    if base.opening is None:
        return receipt
    try:
        repository.history.branches.open(base.opening, prepared_at=base.since)
    except AlreadyExists:
        if base.new_branch:
            raise
        return receipt
    return replace(receipt, branch_created=True, base_branch=base.source)


def merge_reports(reports: list[ReadReport]) -> ReadReport:
    """Combine the reports, with the splits in order."""
    whole, removed = ReadReport(), dict[str, list[RowSet]]()
    for report in reports:
        whole.splits += report.splits
        for key, of_type in report.types.items():
            total = whole.types.setdefault(key, TypeReport())
            total.rows += of_type.rows
            total.explicit_ids += of_type.explicit_ids
            total.id_ranges += of_type.id_ranges
            total.fragments += of_type.fragments
            removed.setdefault(key, []).append(of_type.removed)
            total.absent += of_type.absent
            total.absent_ids += of_type.absent_ids
    for key, parts in removed.items():
        whole.types[key].removed = RowSet.union(*parts)
    whole.splits.sort(key=lambda split: split.index)
    return whole

"""The commits that a repair makes. Each is published only on the head that was looked at: PreconditionFailed otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.changes.stored_rows import rows_at
from omnigraph.errors import Contention, Damaged
from omnigraph.history.chain import folder_of, position_of
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.publish import Attempt, Head
from omnigraph.history.values import Commit, Snapshot, TableState
from omnigraph.indexing.indexes import index_specs
from omnigraph.language.catalog import EdgeType
from omnigraph.load.checks import BUCKET_ROWS, CheckTask, TaskRows
from omnigraph.load.keyed_rows import MAX_BUCKETS, Cut, Source, StoredReader, cut, fragment_groups
from omnigraph.maintenance.verify.files import FilesReport
from omnigraph.maintenance.verify.rows import States, whole_table, with_lost_values
from omnigraph.records.ids import FreshIds
from omnigraph.rules.endpoints import EndpointCheck, ends_of
from omnigraph.snapshot import Repository, View
from omnigraph.tables.addresses import OFFSET_BITS, ROW_ADDRESS
from omnigraph.tables.layout import Layout
from omnigraph.tables.staging import Staged, TrimmedFragment, by_fragment
from omnigraph.tables.table import Table
from omnigraph.tasks.runner import Exchange, Runner, unpacked
from omnigraph.tasks.target import TableVersion, Target
from omnigraph.values.inline_rows import NO_INLINE, Inline
from omnigraph.write.publishing import publish

# Rows of one type with equal ids: the first one keeps its id, and with it its edges; the later ones get new ids.
#
# Edges name the nodes at their ends by id, so those of several nodes with one id cannot be told apart: all stay with the first.


def has_own_ids(view: View, key: str) -> bool:
    """Whether ids of the type are not derived from keys, so that a row can get another one."""
    entity = view.catalog.tables[key]
    return not entity.key


def renumbered(view: View, key: str, runner: Runner) -> tuple[Staged, int] | None:
    """A version of the table without equal ids, and how many rows have new ones; None if there are no equal ids."""
    table, tables, target = view.table(key), view.repository.tables, Target.of(view.repository, view)
    assert table is not None, "its rows were looked at"
    base, _ = tables.settle(table)
    place = TableVersion.of(base)
    source = Source(place, ("id",), ("id",), base.rows, with_address=True)
    buckets = min(-(-base.rows // runner.settings.checked_values(BUCKET_ROWS)), MAX_BUCKETS)
    cuts = [Cut(target, 0, source, fragments, buckets) for _, fragments in fragment_groups(target, source)]
    later = np.concatenate(runner.exchange(Exchange("equal ids", cut, cuts, buckets, _later_rows)))
    if not len(later):
        return None
    fresh = FreshIds.new(view.repository.history.clock)
    tasks = [
        RenumberTask(target, place, fragment, offsets, fresh.part(number))
        for number, (fragment, offsets) in enumerate(by_fragment(later))
    ]
    changed = runner.map("new ids", renumber, tasks)
    fragments = [text for texts, _ in changed for text in texts]
    return tables.stage(base, fragments=fragments, trimmed=[trimmed for _, trimmed in changed]), len(later)


def _later_rows(_bucket: int, pieces: Iterable[tuple[int, Any]]) -> np.ndarray[Any, Any]:
    """Addresses of the rows whose id another row before them has."""
    rows = pa.concat_tables([unpacked(data) for _, data in pieces])
    ordered = rows.sort_by([("id", "ascending"), (ROW_ADDRESS, "ascending")]).combine_chunks()
    ids, addresses = ordered.column("id"), ordered.column(ROW_ADDRESS)
    later: np.ndarray[Any, Any] = addresses[1:].filter(pc.equal(ids[1:], ids[:-1])).to_numpy()
    return later


@dataclass(frozen=True)
class RenumberTask:
    """Rows of one fragment that get new ids."""

    target: Target
    place: TableVersion
    fragment: int
    offsets: np.ndarray[Any, Any]
    fresh: FreshIds


def renumber(task: RenumberTask) -> tuple[tuple[str, ...], TrimmedFragment]:
    """The rows as new fragments, and the fragment without them."""
    table, tables = task.target.open(task.place), task.target.tables
    addresses = task.offsets.astype(np.uint64) | np.uint64(task.fragment << OFFSET_BITS)
    rows = rows_at(table, addresses, None).drop_columns([ROW_ADDRESS])
    ids = task.fresh.for_rows(pa.array(np.arange(rows.num_rows)))
    rows = rows.set_column(rows.schema.get_field_index("id"), rows.schema.field("id"), ids)
    return tables.write_fragments(table, rows), tables.delete_rows(table, task.fragment, task.offsets)


@dataclass(frozen=True)
class RepairCommit:
    action: str
    commit: Commit


def rebuild_indexes(
    repository: Repository, branch: str, indexes: Mapping[str, Iterable[str]], actor: str | None
) -> Commit:
    """The head without these index segments, and every declared index built where it is missing."""
    entry, view = repository.head(branch)
    changes, staged = [], []
    for key, names in indexes.items():
        state = view.state(key)
        assert state is not None, "its indexes were looked at"
        version = repository.tables.stage_without(state.path, state.version, files=(), indexes=list(names))
        version = _indexed(repository, view, key, version)
        staged.append(version)
        changes.append(_change(key, state, version, state.inline))
    repository.tables.sync(staged)
    return _publish(repository, branch, entry.head, changes, f"rebuilt indexes of {branch}", actor)


def renumber_rows(
    repository: Repository, branch: str, keys: Iterable[str], runner: Runner, actor: str | None
) -> RepairCommit:
    """The head with new ids for all rows but the first of those with equal ids."""
    entry, view = repository.head(branch)
    versions = {key: version for key in keys if (version := renumbered(view, key, runner)) is not None}
    repository.tables.sync([staged for staged, _ in versions.values()])
    changes = [_change(key, view.state(key), staged) for key, (staged, _) in versions.items()]
    counts = ", ".join(f"{rows} of {key.partition(':')[2]}" for key, (_, rows) in versions.items())
    message = f"gave new ids to rows whose ids others had: {counts}"
    return RepairCommit(message, _publish(repository, branch, entry.head, changes, message, actor))


def _indexed(repository: Repository, view: View, key: str, staged: Staged) -> Staged:
    table = view.staged(key, staged.path, staged.version)
    return repository.tables.stage_index(table, index_specs(view.entity(key))) or staged


def _change(key: str, before: TableState | None, staged: Staged, inline: Inline = NO_INLINE) -> TableChange:
    generation = 1 if before is None else before.generation + 1
    rows = staged.rows - inline.masked_count + inline.row_count
    after = TableState(staged.path, staged.version, generation, rows, staged.digest, inline)
    return TableChange(key, "strict", before, after)


def _publish(
    repository: Repository,
    branch: str,
    head: Snapshot,
    changes: Iterable[TableChange],
    message: str,
    actor: str | None,
    new_schema: str | None = None,
) -> Commit:
    entry = repository.history.chain.head(branch)
    plan = PublishPlan(
        commit_id=repository.history.new_id(),
        branch=branch,
        incarnation=entry.incarnation,
        base=head.commit.ref,
        schema=head.schema,
        changes=tuple(changes),
        kind="repair",
        actor=actor,
        message=message,
        if_commit=head.commit.id,
        new_schema=new_schema,
    )
    return publish(repository.history, plan)


def restore_values(
    repository: Repository, branch: str, keys: Iterable[str], states: States, actor: str | None
) -> Commit:
    """The head with the values that commits of the branch lost and their files still hold."""
    head = repository.history.chain.head(branch).head
    changes, staged = [], list[Staged]()
    for key in keys:
        versions = with_lost_values(repository, head, key, states)
        staged += versions
        changes.append(_change(key, head.table(key), versions[-1]))
    repository.tables.sync(staged)
    return _publish(repository, branch, head, changes, f"brought back values that commits of {branch} lost", actor)


# ---------------------------------------------------------------- the newest intact commit


def reset_to(
    repository: Repository, branch: str, intact: Snapshot, head: Snapshot | None, actor: str | None
) -> RepairCommit:
    """A commit with the content of an earlier one. `head`: None when the newest entry cannot be read."""
    message = f"set to commit {intact.commit.id}, the newest that was intact"
    if head is None:
        commit = _reopen(repository, branch, intact, message, actor)
    else:
        keys = sorted({*head.tables, *intact.tables})
        changes = [
            TableChange(key, "strict", head.table(key), _restored(intact.table(key), head.table(key)))
            for key in keys
            if head.table(key) != intact.table(key)
        ]
        schema = intact.schema if intact.schema != head.schema else None
        commit = _publish(repository, branch, head, changes, message, actor, schema)
    return RepairCommit(f"set {branch} to its newest intact commit {intact.commit.id}", commit)


def _restored(state: TableState | None, head: TableState | None) -> TableState | None:
    """A state as the one that follows what the head has."""
    return state if state is None or head is None else replace(state, generation=head.generation + 1)


def _reopen(repository: Repository, branch: str, intact: Snapshot, message: str, actor: str | None) -> Commit:
    """A new incarnation of the branch, after an entry that nobody can read: whatever it held, no later commit follows it."""
    history = repository.history
    seen_at = history.chain.clock()
    damaged = position_of(history.store.list(folder_of(branch), limit=1)[0].key)
    source = history.revisions.entry_at(intact.commit.ref)
    commit_id = history.new_id()
    opening = history.branches.opening_at(branch, source, commit_id, damaged + 1)
    closed = replace(opening, op="delete", position=damaged, incarnation=source.incarnation)
    attempt = Attempt(history.publisher, branch, Head(closed, seen_at, confirmed=True), opening)
    attempt.add(
        PublishPlan(
            commit_id=commit_id,
            branch=branch,
            incarnation=opening.incarnation,
            base=intact.commit.ref,
            schema=intact.schema,
            changes=(),
            kind="repair",
            actor=actor,
            message=message,
        )
    )
    commits = attempt.publish()
    if commits is None:
        raise Contention(f"somebody else wrote to branch '{branch}' meanwhile", hint="verify again, then repair again")
    return commits[0]


# ---------------------------------------------------------------- without the lost rows


def drop_lost(
    repository: Repository, branch: str, head: Snapshot, files: FilesReport, actor: str | None
) -> RepairCommit:
    """The head without the rows in damaged files, and without the edges that lose an end by that."""
    versions: dict[str, Staged | None] = {}
    dropped: dict[str, int] = {}
    for key, state in sorted(head.tables.items()):
        if state in files.lost:
            versions[key] = _without_damage(repository, state, files, repository.layout(head.schema, key))
            dropped[key] = state.rows - (0 if (staged := versions[key]) is None else staged.rows)
    view = repository.view(_with(head, versions))
    for key, table, addresses in _loose_edges(view):
        versions[key] = repository.tables.stage(table, remove=addresses)
        dropped[key] = dropped.get(key, 0) + len(addresses)
    for key, staged in versions.items():
        if staged is not None and staged.rows:
            versions[key] = _indexed(repository, view, key, staged)
    repository.tables.sync([staged for staged in versions.values() if staged is not None])
    changes = [
        TableChange(key, "strict", head.table(key), None) if staged is None else _change(key, head.table(key), staged)
        for key, staged in versions.items()
    ]
    counts = ", ".join(f"{rows} of {key.partition(':')[2]}" for key, rows in sorted(dropped.items()))
    message = f"dropped entities whose files are lost: {counts}"
    return RepairCommit(message, _publish(repository, branch, head, changes, message, actor))


def _without_damage(repository: Repository, state: TableState, files: FilesReport, layout: Layout) -> Staged | None:
    """A version without the fragments whose files are damaged, and with the rows that stand in commits; None when there are
    none, and the version itself cannot be read."""
    tables = repository.tables
    inside = f"{state.path}/"
    names = [file.removeprefix(inside) for file in files.damaged if file.startswith(inside)]
    indexes = [name.rsplit("/", 1)[1] for name in names if name.startswith("_indices/")]
    try:
        repository.tables.needed_files(state.path, state.version, state.digest)
    except Damaged:
        if not state.inline.row_count:
            return None
        base = tables.create_as(state.path, layout)
        return tables.settle(tables.with_inline(base, state.inline))[1]
    staged = tables.stage_without(state.path, state.version, files=names, indexes=indexes)
    table = tables.with_inline(tables.open(staged.path, staged.version, layout=layout), state.inline)
    return tables.settle(table)[1] or staged


def _with(head: Snapshot, versions: Mapping[str, Staged | None]) -> Snapshot:
    tables = dict(head.tables)
    for key, staged in versions.items():
        before = tables.pop(key)
        if staged is not None:
            change = _change(key, before, staged).state
            assert change is not None, "it was staged"
            tables[key] = change
    return replace(head, tables=tables)


def _loose_edges(view: View) -> list[tuple[str, Table, list[int]]]:
    """Edges whose nodes are not there, by their addresses."""
    loose = []
    target = Target.of(view.repository, view)
    for key, entity in view.catalog.tables.items():
        table = view.table(key)
        if not isinstance(entity, EdgeType) or table is None or not table.rows:
            continue
        ids: set[str] = set()
        for end, node in ends_of(entity):
            check = EndpointCheck(entity, end, node)
            needs = (*check.own, *check.others, *check.details)
            task = CheckTask(target, check, {need: whole_table(view, need) for need in needs})
            ids |= {violation.id for violation in check.find(TaskRows(task, StoredReader(target)), complete=True)}
        if ids:
            rows = table.lookup("id", sorted(ids), ["id"], with_address=True)
            loose.append((key, table, rows.column(ROW_ADDRESS).to_pylist()))
    return loose

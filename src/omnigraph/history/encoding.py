"""Entries and runs of commit records as bytes, and back. `docs/format.md` describes what is written here.

Records are in the order of their commits, and members that follow from the previous record are left out: the same incarnation,
the next `seq`, the next `position`, that record as the parent. So most records of a long tail are an id and a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from omnigraph._internal.caches import cached_property
from omnigraph.features import BASE, FENCES, INLINE_ROWS
from omnigraph.history.envelope import TRAILER_BYTES, read_as, seal_text, unseal
from omnigraph.history.values import (
    Ancestry,
    Commit,
    CommitRef,
    CommitStep,
    Entry,
    KeyObject,
    LogSegment,
    Snapshot,
    TableState,
    WriteKey,
    decode_ref,
    encode_ref,
    incarnation_start,
    member_texts,
    others,
)
from omnigraph.values.inline_rows import inline_from_json
from omnigraph.values.json_text import stored_text

_RECORD = frozenset(
    {"id", "incarnation", "seq", "position", "parent", "merged", "kind", "at", "actor", "message", "once"}
)
_CHANGED_TABLE = frozenset({"generation", "rows", "change"})
_SEGMENT = frozenset({"id", "level", "seqs", "ids", "times"})
_KEY_OBJECT = frozenset({"id", "seq", "at"})
USUAL_KIND = "mutation"
_SEGMENT_OBJECT = {"features", "records", "checksum"}
_SEGMENT_START = f'{{"features":{stored_text([BASE])},"records":['


def encode_entry(entry: Entry) -> bytes:
    features = ",".join(map(stored_text, (BASE, *_features(entry))))
    return seal_text(f'{{"features":[{features}],{_entry_members(entry)}}}')


def _features(entry: Entry) -> list[str]:
    states = [*entry.before.tables.values(), *[state for step in entry.steps for state in step.tables.values()]]
    has_inline = any(state is not None and state.inline for state in states)
    return [*([FENCES] if entry.is_fence else []), *([INLINE_ROWS] if has_inline else [])]


def decode_entry(data: bytes, key: str, affected: str | None = None, known: Entry | None = None) -> Entry:
    """`known`: an entry of the same branch. What a later one repeats of it is not made again, nor are its texts."""
    value = unseal(key, data, affected)
    return read_as(key, lambda: entry_from_json(value, known), affected)


def entry_to_json(entry: Entry) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(f"{{{_entry_members(entry)}}}")
    return value


def _entry_members(entry: Entry) -> str:
    """The members of an entry as JSON. Commit records and states of tables keep their texts, so what the previous entry had is
    not encoded again."""
    tables = [f"{stored_text(key)}:{state.text()}" for key, state in sorted(entry.before.tables.items())]
    members = [f'"write_features":{stored_text(entry.write_features)}'] if entry.write_features else []
    members += [
        f'"id":{stored_text(entry.id)},"op":"{entry.op}","incarnation":{stored_text(entry.incarnation)}',
        f'"position":{entry.position:d},"schema":{stored_text(entry.before.schema)},"tables":{{{",".join(tables)}}}',
    ]
    if not entry.tail or entry.tail[-1] != entry.before.commit:
        members.append(f'"base":{_record_text(entry.before.commit, None)}')
    reached = ",".join(member_texts(dict(sorted(entry.ancestry.reached.items()))))
    stored = "" if entry.ancestry.stored is None else f',"stored":{stored_text(entry.ancestry.stored)}'
    members += [
        f'"steps":{_steps_text(entry)}',
        f'"ancestry":{{"reached":{{{reached}}}{stored}}}',
        f'"tail":[{Tail.of(entry.tail).text}]',
        f'"segments":[{",".join(segment.text for segment in entry.segments)}]',
    ]
    if entry.key_objects:
        places = [
            {"id": place.id, "seq": place.last_seq, "at": place.last_at, **place.extra} for place in entry.key_objects
        ]
        members.append(f'"keys":{stored_text(places)}')
    return ",".join(members)


def encode_records(commits: Sequence[Commit], older: Sequence[str] = ()) -> bytes:
    """A segment of the log, with the records of older ones before it."""
    return seal_text(f"{_SEGMENT_START}{','.join([*older, Tail.of(commits).text])}]}}")


def records_text(data: bytes, key: str, affected: str | None = None) -> str:
    """The records of a segment as JSON, taken over as they are unless another version wrote the segment."""
    value = unseal(key, data, affected)
    start = _SEGMENT_START.encode()
    if value.keys() == _SEGMENT_OBJECT and data.startswith(start):
        return data[len(start) : -TRAILER_BYTES - len("]")].decode()
    return Tail(read_as(key, lambda: _commits(value["records"]), affected)).text


def decode_records(data: bytes, key: str, affected: str | None = None) -> list[Commit]:
    value = unseal(key, data, affected)
    return read_as(key, lambda: _commits(value["records"]), affected)


# ---------------------------------------------------------------- writing


def _steps_text(entry: Entry) -> str:
    texts = []
    before, schema = entry.before.commit.ref, entry.before.schema
    tables: dict[str, TableState | None] = dict(entry.before.tables)
    for step in entry.steps:
        moved_schema = "" if step.schema == schema else f'"schema":{stored_text(step.schema)},'
        is_mutation = step.commit.kind == "mutation"
        moved = [
            f"{stored_text(key)}:{_moved_text(tables.get(key), step.tables[key], is_mutation)}"
            for key in sorted(step.tables)
        ]
        record = _record_text(step.commit, before)
        texts.append(f'{{"commit":{record},{moved_schema}"tables":{{{",".join(moved)}}}}}')
        before, schema = step.commit.ref, step.schema
        tables.update(step.tables)
    return f"[{','.join(texts)}]"


def _moved_text(before: TableState | None, state: TableState | None, is_mutation: bool) -> str:
    """The state of a table after a step, or only what the step adds if the stored version is the same. Only the mutation that
    removed rows lists their ids."""
    if state is None:
        return "null"
    is_told = bool(state.inline) and (is_mutation or not state.inline[-1].removed)
    if before is None or not is_told or not _is_next(before, state):
        return state.text(with_removed=is_mutation)
    change = f'"generation":{state.generation:d},"rows":{state.rows:d},"change":{state.inline[-1].text()}'
    return f"{{{','.join([change, *member_texts(state.extra)])}}}" if state.extra else f"{{{change}}}"


def _is_next(before: TableState, state: TableState) -> bool:
    if before.version != state.version or before.path != state.path or before.digest != state.digest:
        return False
    return state.inline.follows(before.inline) or before.inline.with_change(state.inline[-1]) == state.inline


class Tail(tuple[Commit, ...]):
    """Commit records in order. Keeps what every entry needs of them, so that it is not computed again for each commit."""

    @classmethod
    def of(cls, commits: Sequence[Commit]) -> Tail:
        return commits if isinstance(commits, Tail) else cls(commits)

    @cached_property
    def text(self) -> str:
        """The records as members of a JSON list."""
        return ",".join(_record_texts(self, None))

    @cached_property
    def attribution_size(self) -> int:
        """Characters of actors and messages."""
        return _attribution_size(self)

    def followed_by(self, commits: Sequence[Commit]) -> Tail:
        after = Tail((*self, *commits))
        last = self[-1].ref if self else None
        after.text = ",".join([*([self.text] if self else ()), *_record_texts(commits, last)])
        after.attribution_size = self.attribution_size + _attribution_size(commits)
        return after

    def __reduce__(self) -> tuple[Any, ...]:
        return Tail, (tuple(self),)


def _attribution_size(commits: Iterable[Commit]) -> int:
    # A record may hold any JSON, whichever version wrote it: it must not block the branch.
    return sum([len(str(text)) for commit in commits for text in (commit.actor, commit.message) if text])


def _record_texts(commits: Iterable[Commit], before: CommitRef | None) -> list[str]:
    texts = []
    for commit in commits:
        texts.append(_record_text(commit, before))
        before = commit.ref
    return texts


def _record_text(commit: Commit, before: CommitRef | None) -> str:
    """The record of a commit that follows another one. Cached on the commit, because every entry repeats the records of the last
    commits."""
    known = commit._record_text
    if known is not None and (known[0] is before or known[0] == before):
        return known[1]
    ref = commit.ref
    texts = [f'{{"id":{stored_text(ref.id)}']
    if before is None or ref.incarnation != before.incarnation:
        texts.append(f'"incarnation":{stored_text(ref.incarnation)}')
    if before is None or ref.seq != before.seq + 1:
        texts.append(f'"seq":{stored_text(ref.seq)}')
    if before is None or ref.position != before.position + 1:
        texts.append(f'"position":{stored_text(ref.position)}')
    if before is None or (commit.parent is not before and commit.parent != before):
        texts.append(f'"parent":{stored_text(commit.parent and encode_ref(commit.parent))}')
    if commit.merged is not None:
        texts.append(f'"merged":{stored_text(encode_ref(commit.merged))}')
    if commit.kind != USUAL_KIND:
        texts.append(f'"kind":{stored_text(commit.kind)}')
    texts.append(f'"at":{stored_text(commit._at_us)}')
    if commit.actor is not None:
        texts.append(f'"actor":{stored_text(commit.actor)}')
    if commit.message is not None:
        texts.append(f'"message":{stored_text(commit.message)}')
    if commit._write_key is not None:
        texts.append(f'"once":{stored_text(commit._write_key.to_json())}')
    text = ",".join([*texts, *member_texts(commit._extra)]) + "}"
    object.__setattr__(commit, "_record_text", (before, text))
    return text


# ---------------------------------------------------------------- reading


def entry_from_json(value: Mapping[str, Any], known: Entry | None = None) -> Entry:
    if known is not None and (known.incarnation != value["incarnation"] or known.position >= value["position"]):
        known = None
    tail = _tail(value["tail"], known)
    base = _commit(value["base"], None) if "base" in value else tail[-1]
    states = {} if known is None else known.head.tables
    tables = {key: TableState.from_json(state, states.get(key)) for key, state in value["tables"].items()}
    before = Snapshot(base, value["schema"], tables)
    return Entry(
        id=value["id"],
        op=value["op"],
        branch=incarnation_start(value["incarnation"])[0],
        incarnation=value["incarnation"],
        position=value["position"],
        before=before,
        steps=tuple(_commit_steps(value["steps"], before)),
        ancestry=Ancestry(value["ancestry"]["reached"], value["ancestry"].get("stored")),
        tail=tail,
        segments=tuple(_log_segment(segment) for segment in value["segments"]),
        key_objects=tuple(_key_object(place) for place in value.get("keys", ())),
        write_features=tuple(value.get("write_features", ())),
    )


def _commit_steps(values: Iterable[Mapping[str, Any]], before: Snapshot) -> Iterable[CommitStep]:
    ref, schema = before.commit.ref, before.schema
    known: dict[str, TableState | None] = dict(before.tables)
    for value in values:
        tables = {key: _table_state(known.get(key), state) for key, state in value["tables"].items()}
        known.update(tables)
        schema = value.get("schema", schema)
        step = CommitStep(_commit(value["commit"], ref), schema, tables)
        ref = step.commit.ref
        yield step


def _table_state(before: TableState | None, value: Mapping[str, Any] | None) -> TableState | None:
    if value is None:
        return None
    if "change" not in value:
        return TableState.from_json(value)
    if before is None:
        raise ValueError("a change of a table that is not there")
    (change,) = inline_from_json([value["change"]])
    return replace(
        before,
        generation=value["generation"],
        rows=value["rows"],
        inline=before.inline.with_change(change),
        extra=others(value, _CHANGED_TABLE),
    )


def _tail(values: Sequence[Mapping[str, Any]], known: Entry | None) -> Tail:
    """The tail of an entry. If it begins with the same record as that of a known entry, it has all of its records, since a chain
    has no gaps."""
    if known is not None and known.tail and len(values) > len(known.tail) and values[0]["id"] == known.tail[0].id:
        before = Tail.of(known.tail).followed_by([step.commit for step in known.steps])
        if len(values) >= len(before) and values[len(before) - 1]["id"] == before[-1].id:
            return before.followed_by(_commits(values[len(before) :], before[-1].ref))
    return Tail(_commits(values))


def _commits(values: Iterable[Mapping[str, Any]], before: CommitRef | None = None) -> list[Commit]:
    commits: list[Commit] = []
    for value in values:
        commits.append(_commit(value, before))
        before = commits[-1].ref
    return commits


def _commit(value: Mapping[str, Any], before: CommitRef | None) -> Commit:
    if before is None:
        ref = decode_ref(value)
    else:
        incarnation = value.get("incarnation", before.incarnation)
        ref = CommitRef(
            value["id"],
            before.branch if incarnation == before.incarnation else incarnation_start(incarnation)[0],
            incarnation,
            value.get("seq", before.seq + 1),
            value.get("position", before.position + 1),
        )
    parent = before if before is not None and "parent" not in value else _parent(value["parent"])
    merged = _parent(value.get("merged"))
    return Commit(
        ref=ref,
        parents=tuple(ref for ref in (parent, merged) if ref is not None),
        kind=value.get("kind", USUAL_KIND),
        _at_us=value["at"],
        actor=value.get("actor"),
        message=value.get("message"),
        _write_key=WriteKey.from_json(value["once"]) if "once" in value else None,
        _extra=others(value, _RECORD),
    )


def _parent(value: Mapping[str, Any] | None) -> CommitRef | None:
    return None if value is None else decode_ref(value)


def _key_object(value: Mapping[str, Any]) -> KeyObject:
    return KeyObject(value["id"], value["seq"], value["at"], others(value, _KEY_OBJECT))


def _log_segment(value: Mapping[str, Any]) -> LogSegment:
    (first_seq, last_seq), (min_id, max_id), (first_at, last_at) = value["seqs"], value["ids"], value["times"]
    return LogSegment(
        id=value["id"],
        level=value["level"],
        first_seq=first_seq,
        last_seq=last_seq,
        min_id=min_id,
        max_id=max_id,
        first_at=first_at,
        last_at=last_at,
        extra=others(value, _SEGMENT),
    )

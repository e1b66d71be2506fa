"""The three-way rule for one entity, defined once, as a query over relations with the table's own columns.

    `ids`     the entities to decide: `id`, and `unknown` when no base value could be agreed on
    `base`    their rows where the sides parted
    `guest`   their rows on the side that is brought in
    `host`    their rows on the side it is brought into

A pure function of Arrow tables: the in-process merge calls it with the entities that both sides changed, a task of the
pipeline may call it with any bucket of ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from omnigraph.changes.changed import relation
from omnigraph.language.catalog import EntityType
from omnigraph.relational import duck
from omnigraph.relational.sql import column, to_sql

if TYPE_CHECKING:
    import pyarrow as pa

By = Literal["row", "property"]
Winner = Literal["nobody", "host", "guest"]
"""Who wins where both sides changed the same thing differently. Nobody: it is a conflict."""

KEEP, TAKE, DELETE, COMBINE, CONFLICT = "keep", "take", "delete", "combine", "conflict"
"""What to do with the host's row: leave it, put the guest's, remove it, put a row of both sides' values, or ask."""

Groups = Sequence[tuple[str, ...]]
QUERIES_KEPT = 1_024

_BASE, _GUEST, _HOST = "b", "g", "h"


def decide(entity: EntityType, relations: Mapping[str, pa.Table], *, by: By, winner: Winner) -> pa.Table:
    """Columns id, verdict, kind (of the conflict, if it is one), fields (changed differently), and, by property, the
    combined row's columns."""
    return duck.run_text(_decision_text(tuple(value_groups(entity)), by, winner), relations)


@lru_cache(maxsize=QUERIES_KEPT)
def _decision_text(groups: tuple[tuple[str, ...], ...], by: By, winner: Winner) -> str:
    return to_sql(decision_query(groups, by, winner), "duckdb")


def decision_query(groups: Groups, by: By, winner: Winner) -> exp.Query:
    """The rule as a tree, for any engine; `groups` are the columns that change together (`value_groups`)."""
    clashes = [_clash(group) for group in groups]
    took = _case([(_is_in(_GUEST), TAKE)], DELETE)
    settled = {"nobody": _word(CONFLICT), "host": _word(KEEP), "guest": took}[winner]
    verdict = exp.Case()
    verdict = verdict.when(_same(groups, _GUEST, _HOST), _word(KEEP))
    verdict = verdict.when(_same_as_base(groups, _GUEST), _word(KEEP))
    verdict = verdict.when(_same_as_base(groups, _HOST), took)
    if by == "property":
        both = exp.and_(_is_in(_GUEST), _is_in(_HOST))
        fits = exp.and_(both, exp.not_(_any(clashes))) if winner == "nobody" else both
        adds = _any([_from_guest(group, winner) for group in groups])
        verdict = verdict.when(fits, exp.Case().when(adds, _word(COMBINE)).else_(_word(KEEP)))
    columns: list[exp.Expr] = [
        column("id", "i"),
        exp.alias_(verdict.else_(settled), "verdict"),
        exp.alias_(_kind(), "kind"),
        exp.alias_(_clash_names(groups, clashes), "fields"),
    ]
    if by == "property":
        columns += [exp.alias_(_combined(group, name, winner), name, quoted=True) for group in groups for name in group]
    query = exp.select(*columns).from_(relation("ids", "i"))
    for name, alias in (("base", _BASE), ("guest", _GUEST), ("host", _HOST)):
        same_id = exp.EQ(this=column("id", alias), expression=column("id", "i"))
        query = query.join(relation(name, alias), on=same_id, join_type="left")
    return query.order_by(column("id", "i"))


def value_groups(entity: EntityType) -> list[tuple[str, ...]]:
    """Columns that change together: the two ends of an edge are one thing."""
    ends = [("src", "dst")] if entity.table_key.startswith("edge:") else []
    return [*ends, *((name,) for name in entity.properties)]


def _is_in(side: str) -> exp.Expr:
    return exp.not_(column("id", side).is_(exp.null()))


def _equal(group: tuple[str, ...], one: str, other: str) -> exp.Expr:
    return exp.and_(
        *(exp.NullSafeEQ(this=column(name, one), expression=column(name, other)) for name in group), wrap=True
    )


def _same(groups: Groups, one: str, other: str) -> exp.Expr:
    """Both absent, or both present with equal values."""
    absent = exp.and_(exp.not_(_is_in(one)), exp.not_(_is_in(other)))
    present = exp.and_(_is_in(one), _is_in(other), *(_equal(group, one, other) for group in groups))
    return exp.or_(absent, present)


def _same_as_base(groups: Groups, side: str) -> exp.Expr:
    """Unchanged since the base, if that is known."""
    return exp.and_(exp.not_(column("unknown", "i")), _same(groups, side, _BASE))


def _clash(group: tuple[str, ...]) -> exp.Expr:
    """Changed on both sides, differently."""
    unchanged = [exp.and_(_is_in(_BASE), _equal(group, side, _BASE)) for side in (_GUEST, _HOST)]
    return exp.and_(exp.not_(_equal(group, _GUEST, _HOST)), *(exp.not_(each) for each in unchanged))


def _any(conditions: list[exp.Expr]) -> exp.Expr:
    return exp.or_(*conditions, wrap=True) if conditions else exp.false()


def _kind() -> exp.Expr:
    both = exp.and_(_is_in(_GUEST), _is_in(_HOST))
    inserted = exp.and_(both, exp.not_(_is_in(_BASE)), exp.not_(column("unknown", "i")))
    return _case([(inserted, "divergent_insert"), (both, "divergent_update")], "delete_vs_update")


def _clash_names(groups: Groups, clashes: list[exp.Expr]) -> exp.Expr:
    names = [
        exp.Case().when(clash, _word("endpoints" if len(group) > 1 else group[0]))
        for group, clash in zip(groups, clashes, strict=True)
    ]
    # As a plain call: nulls are left out, which the tree's own node would turn into a null of the whole.
    return exp.Anonymous(this="concat_ws", expressions=[_word(", "), *names]) if names else _word("")


def _from_guest(group: tuple[str, ...], winner: Winner) -> exp.Expr:
    """Whether a combined row has the guest's value: only the guest changed it, or the guest wins."""
    same = _equal(group, _GUEST, _HOST)
    guest_unchanged = exp.and_(_is_in(_BASE), _equal(group, _GUEST, _BASE))
    changed = exp.and_(exp.not_(same), exp.not_(guest_unchanged))
    if winner == "guest":
        return changed
    return exp.and_(changed, _is_in(_BASE), _equal(group, _HOST, _BASE))


def _combined(group: tuple[str, ...], name: str, winner: Winner) -> exp.Expr:
    return exp.Case().when(_from_guest(group, winner), column(name, _GUEST)).else_(column(name, _HOST))


def _case(branches: list[tuple[exp.Expr, str]], otherwise: str) -> exp.Expr:
    case = exp.Case()
    for condition, word in branches:
        case = case.when(condition, _word(word))
    return case.else_(_word(otherwise))


def _word(text: str) -> exp.Expr:
    return exp.Literal.string(text)

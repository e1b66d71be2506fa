"""The permissions that public methods ask the policy for before they do anything: one table per public class."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import GeneratorType
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.errors import OmnigraphError, PipelineFailed, PolicyDenied, StoragePermanent, UsageError
from omnigraph.graph.arguments import argument_checks
from omnigraph.history.chain import MAIN
from omnigraph.history.plan import check_attribution
from omnigraph.policy.ask import AccessRequest, Action, Authorizer, denied
from omnigraph.snapshot import Repository
from omnigraph.storage.os_errors import raise_out_of_files

if TYPE_CHECKING:
    from omnigraph.language.query.plan import MutationPlan
    from omnigraph.write.group import GroupCommitter


@dataclass(frozen=True)
class Caller:
    """The actor who uses a graph, and the gate that is asked. If `actor` is None, each call names one."""

    gate: Authorizer | None
    actor: str | None
    query: str | None = None
    """The stored query that all calls are part of."""
    is_read_only: bool = False

    def named(self, actor: str, query: str | None) -> Caller:
        """This caller, bound to an actor and perhaps to a stored query. UsageError if it has an actor already."""
        if self.actor is not None:
            raise UsageError(
                f"this graph is used as '{self.actor}' already", hint="call as_ on the graph that was opened"
            )
        check_attribution(actor, None)
        return replace(self, actor=actor, query=query)

    def acting(self, actor: str | None) -> str | None:
        """The actor of a call with this `actor` argument. UsageError if the caller has another one."""
        if actor is not None and self.actor is not None and actor != self.actor:
            raise UsageError(f"this graph is used as '{self.actor}', not as '{actor}'", hint="leave actor= out")
        return self.actor if actor is None else actor

    def ask(self, ask: AccessRequest, actor: str | None = None) -> None:
        """PolicyDenied unless the actor may do this. Without an actor, nothing is allowed."""
        who = self.acting(actor)
        if self.gate is None:
            return
        if who is None:
            raise denied(None, ask, hint="g.as_(actor) names the caller; on the command line, --as")
        self.gate.check(who, ask if self.query is None else replace(ask, query=self.query))

    def admit(self, asks: Permissions, target: Any, arguments: dict[str, Any]) -> None:
        """Ask for everything that a call needs. `arguments` are all of its arguments; they are replaced by those that were
        allowed."""
        actor = None
        if "actor" in arguments and asks not in (no_permission, commits_asks):
            actor = arguments["actor"] = self.acting(arguments["actor"])
        if self.is_read_only and not (asks is looks or arguments.get("dry_run")):
            for ask in asks(MethodCall(target, arguments)):
                if ask.action not in ("read", "export"):
                    raise UsageError("the graph is open for reading only", hint="open it without read_only=True")
        if self.gate is not None:
            call = MethodCall(target, arguments)
            for ask in asks(call):
                try:
                    self.ask(ask, actor)
                except PolicyDenied as error:
                    call.conceal(error)
                    raise


@dataclass(frozen=True)
class MethodCall:
    """A call of a public method."""

    target: Any
    arguments: dict[str, Any]
    revisions: dict[str, str] = field(default_factory=dict)
    """By branch: the revision, or tag, that was found to be on it, where its name does not say so."""

    def branch(self, name: str = "branch") -> str:
        """The branch that an argument names, without surrounding spaces."""
        value: str = self.arguments[name]
        return value.strip()

    def owner(self, name: str = "revision") -> str:
        """The branch that owns the commit of a revision. The argument becomes that commit, so that the call reads what was
        allowed.

        A revision that names no commit is treated as the branch that it names, so that a refusal does not reveal what exists.
        """
        return self.owners(name)[-1]

    def owners(self, name: str = "revision") -> tuple[str, ...]:
        """The branch that owns the commit of a revision, after the branch by which it is named, if that is another one: who may
        not know of a branch does not learn from `branch~N`, or from its past, whether there is one."""
        revision, as_of = self.arguments[name], self.arguments.get("as_of") if name == "revision" else None
        if revision == MAIN and as_of is None:
            return (MAIN,)
        text = str(revision).strip()
        named = self.found_on(text.partition("~")[0], text)
        try:
            branch, commit_id = self.target._repository.history.revisions.owner(revision, as_of)
        except OmnigraphError:
            return (named,)
        if commit_id is not None:
            self.arguments[name] = commit_id
            if name == "revision" and "as_of" in self.arguments:
                self.arguments["as_of"] = None
        is_relative = named != text or as_of is not None
        return tuple(dict.fromkeys([*([named] if is_relative else []), self.found_on(branch, text)]))

    def found_on(self, branch: str, revision: str) -> str:
        """The branch, which a refusal must not name unless the caller did."""
        if revision != branch:
            self.revisions[branch] = revision
        return branch

    def conceal(self, error: PolicyDenied) -> None:
        """Let a refusal name what the caller named, not the branch on which that was found."""
        for branch, revision in self.revisions.items():
            error.message = error.message.replace(f"'{branch}'", f"'{revision}'")
            error.args = (error.message,)
            error.branch = revision if error.branch == branch else error.branch
            error.target_branch = revision if error.target_branch == branch else error.target_branch

    @property
    def types(self) -> frozenset[str] | None:
        types = self.arguments.get("types")
        return None if types is None else frozenset(types)


Permissions = Callable[[MethodCall], Iterator[AccessRequest]]


def no_permission(call: MethodCall) -> Iterator[AccessRequest]:
    """For methods that neither read nor change the graph's content."""
    return iter(())


def _revisions(action: Action, *names: str) -> Permissions:
    def asks(call: MethodCall) -> Iterator[AccessRequest]:
        for name in names:
            if call.arguments[name] is not None:
                types = call.types if action == "export" else None
                for branch in call.owners(name):
                    yield AccessRequest(action, branch=branch, types=types)

    return asks


def _branch(action: Action, name: str = "branch") -> Permissions:
    def asks(call: MethodCall) -> Iterator[AccessRequest]:
        types = call.types if action == "export" else NO_TYPES if action == "change" else None
        yield AccessRequest(action, branch=call.branch(name), types=types)

    return asks


NO_TYPES: frozenset[str] = frozenset()
"""For a change whose types are not known yet: each of its statements asks for its own."""


def _main(action: Action) -> Permissions:
    return lambda call: iter([AccessRequest(action, branch=MAIN)])


def _target(action: Action, name: str) -> Permissions:
    return lambda call: iter([AccessRequest(action, target_branch=call.branch(name))])


def _graph(action: Action) -> Permissions:
    return lambda call: iter([AccessRequest(action)])


looks = _graph("admin")
"""For methods that look at files and change none."""


def _own_branch(action: Action) -> Permissions:
    """Asks for the branch of a transaction."""
    types = NO_TYPES if action == "change" else None
    return lambda call: iter([AccessRequest(action, branch=call.target.branch, types=types)])


def _statement(call: MethodCall) -> Iterator[AccessRequest]:
    """A statement of a transaction about one type."""
    yield AccessRequest("change", branch=call.target.branch, types=frozenset([call.arguments["type_name"]]))


def _deletion(call: MethodCall) -> Iterator[AccessRequest]:
    """A node is deleted with its edges, so their types are asked for too."""
    type_name: str = call.arguments["type_name"]
    edges = call.target._writes.view.catalog.edges_of(type_name)
    yield AccessRequest(
        "change", branch=call.target.branch, types=frozenset([type_name, *(edge.name for edge in edges)])
    )


def touched(plan: MutationPlan) -> frozenset[str]:
    """The types that a mutation writes to, including those of edges that are deleted with a node."""
    return frozenset(table_key.partition(":")[2] for table_key in plan.writes)


def _load(call: MethodCall) -> Iterator[AccessRequest]:
    branch = call.branch()
    types = None if call.arguments["type"] is None else frozenset([call.arguments["type"]])
    yield AccessRequest("change", branch=branch, types=types or NO_TYPES, mode=call.arguments["mode"])
    if call.arguments["from_"] is not None and not _exists(call.target._repository, branch):
        yield AccessRequest("branch_create", branch=call.owner("from_"), target_branch=branch)


def _embed(call: MethodCall) -> Iterator[AccessRequest]:
    """Filling in vectors changes the types that declare them."""
    branch, types = call.branch(), call.types
    if types is None and _exists(call.target._repository, branch):
        nodes = call.target._repository.head(branch)[1].catalog.nodes.values()
        types = frozenset(node.name for node in nodes if node.embedded)
    yield AccessRequest("change", branch=branch, types=types or NO_TYPES)


def _exists(repository: Any, branch: str) -> bool:
    newest = repository.history.chain.newest(branch)
    return newest is not None and newest.alive


def _apply_schema(call: MethodCall) -> Iterator[AccessRequest]:
    consent = call.arguments["allow_data_loss"]
    yield AccessRequest("schema_apply", target_branch=call.branch(), allow_data_loss=consent)


def _diff_schema(call: MethodCall) -> Iterator[AccessRequest]:
    for name in ("a", "b"):
        if not isinstance(call.arguments[name], Path):
            for branch in call.owners(name):
                yield AccessRequest("read", branch=branch)


def _create_branch(call: MethodCall) -> Iterator[AccessRequest]:
    yield AccessRequest("branch_create", branch=call.owner(), target_branch=call.branch("name"))


def _merge(call: MethodCall) -> Iterator[AccessRequest]:
    yield AccessRequest("branch_merge", branch=call.branch("source"), target_branch=call.branch("into"))


def _revert(call: MethodCall) -> Iterator[AccessRequest]:
    """Asked for like a merge into the branch, since it publishes changes of any type."""
    yield AccessRequest("branch_merge", branch=call.owner("commit"), target_branch=call.branch())


def _reset(call: MethodCall) -> Iterator[AccessRequest]:
    yield AccessRequest("admin")
    yield AccessRequest("read", branch=call.owner("to"))


def _create_tag(call: MethodCall) -> Iterator[AccessRequest]:
    yield AccessRequest("tag_create", target_branch=call.owner())


def _delete_tag(call: MethodCall) -> Iterator[AccessRequest]:
    try:
        commit = call.target._repository.history.tags.find(call.arguments["name"])
    except OmnigraphError:
        commit = None
    name = call.branch("name")
    yield AccessRequest("tag_delete", target_branch=name if commit is None else call.found_on(commit.branch, name))


commits_asks = _revisions("read", "revision")
"""The `actor` of `commits` filters commits; it is not the caller."""

GRAPH: Mapping[str, Permissions] = {
    **dict.fromkeys(
        ["close", "as_", "uri", "id", "branches", "tags", "recovery", "schema", "maintenance"], no_permission
    ),
    **dict.fromkeys(["query"], _revisions("read", "revision", "schema_of")),
    **dict.fromkeys(
        [
            "explain",
            "sql",
            "picture",
            "duckdb",
            "entity",
            "blob",
            "blame",
            "history",
            "snapshot",
            "indexes",
            "lint",
            "spark",
            "algorithms",
            "show",
        ],
        _revisions("read", "revision"),
    ),
    "commits": commits_asks,
    "commit_changes": _revisions("read", "revision"),
    **dict.fromkeys(["diff", "diff_stat", "distance"], _revisions("read", "a", "b")),
    **dict.fromkeys(["head", "changes", "wait_for_change", "explain_load"], _branch("read")),
    **dict.fromkeys(["export", "export_stream"], _revisions("export", "revision")),
    **dict.fromkeys(["baseline", "baseline_stream"], _branch("export")),
    **dict.fromkeys(["mutate", "transaction", "stream_into"], _branch("change")),
    "load": _load,
    "embed": _embed,
    "revert": _revert,
    "reset": _reset,
    **dict.fromkeys(["push", "pull"], _graph("admin")),
}
SCHEMA: Mapping[str, Permissions] = {
    "catalog": _main("read"),
    **dict.fromkeys(["plan", "broken_queries"], _branch("read")),
    "diff": _diff_schema,
    "apply": _apply_schema,
}
MAINTENANCE: Mapping[str, Permissions] = {
    **dict.fromkeys(["ensure_indexes", "optimize", "repair", "cleanup"], _graph("admin")),
    "storage": _branch("read"),
    "verify": looks,
}
BRANCHES: Mapping[str, Permissions] = {
    "create": _create_branch,
    "delete": _target("branch_delete", "name"),
    "merge": _merge,
    **dict.fromkeys(["list", "distances"], _main("read")),
    "exists": _branch("read", "name"),
}
TAGS: Mapping[str, Permissions] = {"create": _create_tag, "delete": _delete_tag, "list": _main("read")}
RECOVERY: Mapping[str, Permissions] = {"list": looks, **dict.fromkeys(["resume", "discard"], _graph("admin"))}
FRAMES: Mapping[str, Permissions] = {
    "table": no_permission,
    "query": no_permission,
    "algorithms": no_permission,
    "diff": _revisions("read", "a", "b"),
}
"""The policy was asked when these tables were made."""
ALGORITHMS: Mapping[str, Permissions] = dict.fromkeys(
    ["pagerank", "connected_components", "label_propagation", "shortest_paths", "triangle_count", "local_clustering"],
    no_permission,
)
TRANSACTION: Mapping[str, Permissions] = {
    **dict.fromkeys(["branch", "receipt", "rollback"], no_permission),
    **dict.fromkeys(["insert", "upsert", "insert_many", "update"], _statement),
    "delete": _deletion,
    **dict.fromkeys(["get", "query"], _own_branch("read")),
    **dict.fromkeys(["mutate", "commit"], _own_branch("change")),
}


def permissions(method: Callable[..., Any]) -> Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]:
    """A function that asks the policy before a call of the method, of an object with a `_caller`; `_asks` of the object says for what.
    It returns the arguments of the call, defaults included."""
    name, signature = method.__name__, functools.cache(lambda: inspect.signature(method))

    def admitted(self: Any, *arguments: Any, **options: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        bound = signature().bind(self, *arguments, **options)
        bound.apply_defaults()
        self._caller.admit(self._asks[name], self, bound.arguments)
        return bound.args[1:], bound.kwargs

    return admitted


def asking_property(name: str, member: property) -> property:
    """Like `asking`, for a property."""
    get = member.fget
    assert get is not None

    @functools.wraps(get)
    def admitted(self: Any) -> Any:
        if self._caller is not None:
            self._caller.admit(self._asks[name], self, {})
        return get(self)

    return property(admitted, doc=member.__doc__)


# Where calls enter and leave the library: arguments are checked, the policy is asked, and a call that fails because of a damaged
# file raises Damaged with the file's name. Where no more files may be open, the error says so.
#
# Lance, Arrow and DuckDB report damage in many ways. So when one of them fails, the files of the tables that were opened last are
# checked.

C = TypeVar("C", bound=type)


def public_api(public: C) -> C:
    """Decorates a class whose objects have `_repository`, `_caller` and `_asks`: its public methods and properties, and the
    streams that they return."""
    for name, member in list(vars(public).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(public, name, _guarded(member))
        elif isinstance(member, property) and not name.startswith("_"):
            setattr(public, name, asking_property(name, member))
    return public


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    check, admitted = argument_checks(method, is_method=True), permissions(method)

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            if arguments or options:
                arguments = check(arguments, options)
            if self._caller is not None:
                arguments, options = admitted(self, *arguments, **options)
            result = method(self, *arguments, **options)
        except BaseException as error:
            _raise_damage(self._repository, error)
            raise
        return _watched(self._repository, result) if type(result) is GeneratorType else result

    return call


def _watched(repository: Repository, stream: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from stream
    except BaseException as error:
        _raise_damage(repository, error)
        raise


def _raise_damage(repository: Repository, error: BaseException) -> None:
    """Raise Damaged if a file is the cause of an error that is not one of ours, HistoryGap if cleanup has removed it."""
    raise_out_of_files(error)
    ours = isinstance(error, OmnigraphError) and not isinstance(error, StoragePermanent | PipelineFailed)
    # A panic in Lance is a BaseException.
    if ours or not (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
        return
    damage = repository.damage()
    if damage is not None:
        raise damage from error


# What the parts of a graph share. A graph is one class; its methods are grouped by theme, one file each.


class GraphState:
    """The state of an open graph that the methods of all themes use."""

    _asks = GRAPH

    def __init__(
        self, repository: Repository, caller: Caller | None = None, committer: GroupCommitter | None = None
    ) -> None:
        self._repository = repository
        self._caller = caller
        if committer is not None:
            self._committer = committer

    @cached_property
    def _committer(self) -> GroupCommitter:
        from omnigraph.write.group import GroupCommitter

        return GroupCommitter(self._repository)

    @property
    def uri(self) -> str:
        """The folder or address of the graph."""
        return self._repository.store.uri

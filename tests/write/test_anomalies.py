"""The anomalies of the LDBC ACID suite, each defined once and looked for by clients in threads, in processes and over HTTP.

A client runs transactions until they are committed. In the library a transaction is a transaction; over HTTP it is reads of one commit
and then one mutation, with `If-Match` if anything was read. A client without transactions shows that each definition finds its anomaly.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Protocol

import pytest
from children import Child
from client.conftest import serving
from serving import Fixed

import omnigraph as og
from omnigraph.errors import EndpointMissing, OmnigraphError, PreconditionFailed
from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog

SCHEMA = """
node Person { name: String @key  n: I64  log: String }
node Post { title: String @key }
edge Knows: Person -> Person
edge Likes: Person -> Post
"""
PEOPLE = 4
WRITERS = 3
"""And one reader."""
ROUNDS = 6
MAX_ATTEMPTS = 1_000
Seen = Any
Rows = list[dict[str, Any]]


class Session(Protocol):
    """One attempt of one transaction. Statements have no parameters."""

    def read(self, clauses: str) -> Rows: ...

    def write(self, statement: str) -> None: ...


Work = Callable[[Session], Seen]
Client = Callable[[Work], Seen]
"""Runs one transaction until it is committed; returns what it saw. None if it was refused."""

# ---------------------------------------------------------------- the clients


def query(clauses: str) -> str:
    return f"query q() {{ {clauses} }}"


@dataclass
class InTransaction:
    tx: og.Transaction

    def read(self, clauses: str) -> Rows:
        return self.tx.query(query(clauses)).rows

    def write(self, statement: str) -> None:
        self.tx.mutate(query(statement))


class OverHTTP:
    def __init__(self, graph: og.RemoteGraph) -> None:
        self.graph = graph
        self.commit: str | None = None
        self.statements: list[str] = []

    def read(self, clauses: str) -> Rows:
        if self.commit is None:
            self.commit = self.graph.head().id
        return self.graph.query(query(clauses), revision=self.commit).rows

    def write(self, statement: str) -> None:
        self.statements.append(statement)

    def end(self) -> None:
        if self.statements:
            self.graph.mutate(query(" ".join(self.statements)), if_commit=self.commit)


@dataclass
class WithoutTransactions:
    """Each statement by itself."""

    graph: og.Graph

    def read(self, clauses: str) -> Rows:
        return self.graph.query(query(clauses)).rows

    def write(self, statement: str) -> None:
        self.graph.mutate(query(statement))


def library_client(graph: og.Graph) -> Client:
    def attempt(work: Work) -> Seen:
        with graph.transaction() as tx:
            return work(InTransaction(tx))

    return lambda work: until_committed(lambda: attempt(work))


def http_client(graph: og.RemoteGraph) -> Client:
    def attempt(work: Work) -> Seen:
        session = OverHTTP(graph)
        seen = work(session)
        session.end()
        return seen

    return lambda work: until_committed(lambda: attempt(work))


def until_committed(attempt: Callable[[], Seen]) -> Seen:
    for _ in range(MAX_ATTEMPTS):
        try:
            return attempt()
        except EndpointMissing:
            return None
        except OmnigraphError as error:
            if not error.retry and not isinstance(error, PreconditionFailed):
                raise
    raise AssertionError("a transaction was never committed")


# ---------------------------------------------------------------- the anomalies


@dataclass(frozen=True)
class Anomaly:
    """`write` is a transaction of writer w in round r, `read` that of a reader. `found` is what is wrong, if anything, with what they saw and
    with the graph at the end."""

    write: Callable[[Session, int, int], Seen]
    found: Callable[[list[Seen], list[Seen], Session], object]
    read: Work | None = None


REFUSED = 'insert Knows { from: "p0", to: "nobody" }'


def change(name: str, expression: str, property: str = "n") -> str:
    return f'update Person set {{ {property}: {expression} }} where name = "{name}"'


def numbers(session: Session, *names: str) -> list[int]:
    rows = session.read("match { $p: Person } return { $p.name as name, $p.n as n }")
    by_name = {row["name"]: row["n"] for row in rows}
    return [by_name[name] for name in names]


def count(session: Session, pattern: str) -> int:
    (row,) = session.read(f"match {{ {pattern} }} return {{ count($x) as n }}")
    return int(row["n"])


EVERYBODY = tuple(f"p{i}" for i in range(PEOPLE))


def write_cycle(session: Session, _writer: int, _round: int) -> None:
    """The versions of a cycle of persons, all in one transaction."""
    for name in EVERYBODY:
        session.write(change(name, "n + 1"))


def append_to_all(session: Session, writer: int, round_: int) -> None:
    for name in EVERYBODY:
        session.write(change(name, f'join([log, "{writer}.{round_} "], "")', "log"))


def logs(session: Session) -> set[str]:
    return {row["log"] for row in session.read("match { $p: Person } return { $p.name as name, $p.log as log }")}


def abort(session: Session, writer: int, _round: int) -> None:
    session.write(change(f"p{writer}", "2"))
    session.write(REFUSED)


def write_twice(session: Session, writer: int, _round: int) -> None:
    session.write(change(f"p{writer}", "2"))
    session.write(change(f"p{writer}", "1"))


def write_own_and_read_the_others(session: Session, writer: int, round_: int) -> Seen:
    mine = writer * 1_000 + round_ + 1
    session.write(change(f"p{writer}", str(mine)))
    others = [f"p{i}" for i in range(WRITERS) if i != writer]
    return mine, numbers(session, *others)


def seen_by_each_other(written: list[Seen]) -> list[Seen]:
    seen_by = {mine: set(others) for mine, others in written}
    return [(a, b) for a, b in itertools.combinations(seen_by, 2) if a in seen_by[b] and b in seen_by[a]]


def read_versions_twice(session: Session) -> Seen:
    return numbers(session, *EVERYBODY), numbers(session, *EVERYBODY)


def like(session: Session, writer: int, _round: int) -> None:
    session.write(f'insert Likes {{ from: "p{writer}", to: "post" }}')


def count_likes_twice(session: Session) -> Seen:
    return tuple(count(session, "$p $x:likes $post") for _ in range(2))


def befriend(session: Session, writer: int, _round: int) -> None:
    """The number of friends is what was read, and one more."""
    (friends,) = numbers(session, "p0")
    session.write(f'insert Knows {{ from: "p0", to: "p{writer + 1}" }}')
    session.write(change("p0", str(friends + 1)))


def withdraw(session: Session, writer: int, _round: int) -> None:
    """From one of two accounts, if they have enough together."""
    if sum(numbers(session, "p0", "p1")) >= 100:
        session.write(change(f"p{writer % 2}", "n - 100"))


def add_person_with_all_that_belongs_to_it(session: Session, writer: int, round_: int) -> bool:
    """Every second one is refused at its end."""
    name = f"new-{writer}-{round_}"
    session.write(f'insert Person {{ name: "{name}", n: 0, log: "" }}')
    session.write(f'insert Knows {{ from: "p0", to: "{name}" }}')
    session.write(change("p0", "n + 1"))
    if round_ % 2:
        session.write(REFUSED)
    return True


def person_edge_and_number(session: Session) -> Seen:
    persons = count(session, "$x: Person") - PEOPLE
    return persons, count(session, "$p $x:knows $q"), *numbers(session, "p0")


def read_one(session: Session) -> Seen:
    return numbers(session, *EVERYBODY)


ANOMALIES = {
    "g0, dirty write": Anomaly(append_to_all, lambda written, read, end: len(logs(end)) != 1),
    "g1a, aborted read": Anomaly(abort, lambda written, read, end: any(any(seen) for seen in read), read_one),
    "g1b, intermediate read": Anomaly(write_twice, lambda written, read, end: any(2 in seen for seen in read), read_one),
    "g1c, circular information flow": Anomaly(
        write_own_and_read_the_others, lambda written, read, end: seen_by_each_other(written)
    ),
    "otv, observed transaction vanishes": Anomaly(
        write_cycle, lambda written, read, end: [seen for seen in read if max(seen[0]) > min(seen[1])], read_versions_twice
    ),
    "fr, fractured read": Anomaly(
        write_cycle, lambda written, read, end: [seen for seen in read if len(set(seen[0])) > 1], read_versions_twice
    ),
    "imp, item many preceders": Anomaly(
        write_cycle, lambda written, read, end: [seen for seen in read if seen[0] != seen[1]], read_versions_twice
    ),
    "pmp, predicate many preceders": Anomaly(
        like, lambda written, read, end: [seen for seen in read if seen[0] != seen[1]], count_likes_twice
    ),
    "lost update": Anomaly(
        befriend, lambda written, read, end: numbers(end, "p0") != [len(written)] or count(end, "$p $x:knows $q") != len(written)
    ),
    "write skew": Anomaly(withdraw, lambda written, read, end: sum(numbers(end, "p0", "p1")) <= 0),
    "atomicity": Anomaly(
        add_person_with_all_that_belongs_to_it,
        lambda written, read, end: (
            [seen for seen in read if len(set(seen)) > 1]
            or person_edge_and_number(end) != (len([seen for seen in written if seen]),) * 3
        ),
        person_edge_and_number,
    ),
}  # fmt: skip


def act(anomaly: Anomaly, client: Client, number: int) -> list[Seen]:
    """All transactions of one client: a writer, or the reader if its number is that after the last writer."""
    if number < WRITERS:
        return [client(lambda session, r=r: anomaly.write(session, number, r)) for r in range(ROUNDS)]  # type: ignore[misc]
    return [] if anomaly.read is None else [client(anomaly.read) for _ in range(ROUNDS)]


# ---------------------------------------------------------------- clients of each kind, all at once

Seens = Sequence[list[Seen]]
"""What each client saw."""


class Steps:
    """Threads that wait for each other before each step, so that their transactions overlap. One that has ended is not waited for."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._waiting = 0
        self._number = 0
        self._changed = threading.Condition()

    def wait(self) -> None:
        with self._changed:
            number = self._number
            self._waiting += 1
            self._advance()
            self._changed.wait_for(lambda: self._number != number)

    def leave(self) -> None:
        with self._changed:
            self._threads -= 1
            self._advance()

    def _advance(self) -> None:
        if self._waiting == self._threads:
            self._waiting = 0
            self._number += 1
            self._changed.notify_all()


@dataclass
class InStep:
    session: Session
    steps: Steps

    def read(self, clauses: str) -> Rows:
        self.steps.wait()
        return self.session.read(clauses)

    def write(self, statement: str) -> None:
        self.steps.wait()
        self.session.write(statement)


def in_threads(anomaly: Anomaly, client: Client) -> Seens:
    numbers = range(WRITERS + 1)
    steps, seen = Steps(len(numbers)), [list[Seen]() for _ in numbers]

    def run(number: int) -> None:
        try:
            seen[number] = act(anomaly, lambda work: client(lambda session: work(InStep(session, steps))), number)
        finally:
            steps.leave()

    threads = [threading.Thread(target=run, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def by_threads(name: str, uri: str) -> Seens:
    """All of one handle: writers share entries."""
    return in_threads(ANOMALIES[name], library_client(og.open(uri, durability="process")))


def over_http(name: str, uri: str) -> Seens:
    source = Fixed({"people": Path(uri)}, queries="")
    application = Application(source, source.load(), log=RequestLog("json", StringIO()))
    with serving(application) as url, og.connect(url, graph="people") as graph:
        return in_threads(ANOMALIES[name], http_client(graph))


@pytest.fixture(scope="module")
def processes() -> Iterator[list[Child]]:
    children = [Child(Path(__file__)) for _ in range(WRITERS + 1)]
    yield children
    for child in children:
        child.close()
        assert child.wait() == 0


def in_processes(name: str, uri: str, children: list[Child]) -> Seens:
    for number, child in enumerate(children):
        print(json.dumps([name, uri, number]), file=child.stdin, flush=True)
    return [json.loads(child.stdout.readline()) for child in children]


def obey() -> None:
    """In a process: one order a line, one answer a line."""
    for line in sys.stdin:
        name, uri, number = json.loads(line)
        client = library_client(og.open(uri, durability="process"))
        print(json.dumps(act(ANOMALIES[name], client, number)), flush=True)


# ---------------------------------------------------------------- the tests


@pytest.fixture
def uri(tmp_path: Path) -> str:
    graph = og.init(tmp_path / "g", schema=SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": name, "n": 0, "log": ""} for name in EVERYBODY])
        tx.insert("Post", title="post")
    return graph.uri


def prepare(name: str, graph: og.Graph) -> None:
    if name == "write skew":
        with graph.transaction() as tx:
            for person, balance in (("p0", 70), ("p1", 80)):
                tx.update("Person", person, n=balance)


def found(name: str, uri: str, clients: Callable[[str, str], Seens]) -> object:
    """What is wrong after these clients have run."""
    prepare(name, og.open(uri))
    *written, read = clients(name, uri)
    with og.open(uri).transaction() as tx:
        return ANOMALIES[name].found(list(itertools.chain(*written)), read, InTransaction(tx))


@pytest.mark.parametrize("name", ANOMALIES)
@pytest.mark.parametrize("kind", ["threads", "processes", "HTTP"])
def test_anomaly(kind: str, name: str, uri: str, processes: list[Child]) -> None:
    kinds = {"threads": by_threads, "HTTP": over_http, "processes": lambda *order: in_processes(*order, processes)}
    assert not found(name, uri, kinds[kind])


@pytest.mark.parametrize("name", ANOMALIES)
def test_a_client_without_transactions_meets_it(name: str, uri: str) -> None:
    """So that each definition finds what it is about."""

    def clients(name: str, uri: str) -> Seens:
        graph = og.open(uri, durability="process")
        return in_threads(ANOMALIES[name], lambda work: until_committed(lambda: work(WithoutTransactions(graph))))

    assert found(name, uri, clients)


if __name__ == "__main__":
    obey()

"""The questions of LDBC's SNB Interactive, LSQB and FinBench, one query each, against SQL over the same generated rows.

The networks are small, and have people without friends, ties, missing values, messages that nobody answers, and arguments that
name nobody.
"""

from __future__ import annotations

import datetime as dt
import random
import runpy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from read.graphs import commit, new_graph

from omnigraph.language.catalog import Catalog, EdgeType, NodeType
from omnigraph.language.query.mutations import bind_parameters, compile_query, query_names
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.execution import run_read
from omnigraph.read.result import Result
from omnigraph.snapshot import View
from omnigraph.values.types import Scalar

FOLDER = Path(__file__).parents[2] / "examples" / "ldbc"
FILES = {"snb": "social", "lsqb": "social", "finbench": "finance"}
TEXTS = {file: (FOLDER / f"{file}.gq").read_text() for file in FILES}
QUESTIONS = [(file, name) for file, text in TEXTS.items() for name in query_names(text)]
SQL = {
    name.strip(): sql
    for name, _, sql in (
        section.partition("\n") for section in Path(__file__).with_name("ldbc.sql").read_text().split("\n-- ")[1:]
    )
}
VIEWS = """
create table k as select s, d, creationDate as since from Knows union all select d, s, creationDate from Knows;
create view written as select m.*, h.d as author from Message m join HasCreator h on h.s = m.messageId;
create macro near(p) as table select distinct n from (
  select d as n from k where s = p union all select g.d from k f join k g on g.s = f.d where f.s = p) where n <> p;
"""
START = dt.datetime(2011, 1, 1)
ARROW = {
    Scalar.STRING: pa.utf8(),
    Scalar.I32: pa.int64(),
    Scalar.I64: pa.int64(),
    Scalar.F64: pa.float64(),
    Scalar.BOOL: pa.bool_(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.timestamp("us"),
}
Rows = list[dict[str, Any]]


def when(chance: random.Random) -> dt.datetime:
    """A day of a hundred, so that some are equal."""
    return START + dt.timedelta(days=chance.randrange(100))


class Network:
    """Rows by type, edges with the columns `s` and `d`."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rows: dict[str, Rows] = {}

    def nodes(self, name: str, key: str, numbers: range, values: Callable[[int], Mapping[str, Any]]) -> None:
        self.rows[name] = [{key: number, **values(number)} for number in numbers]

    def edges(self, name: str, pairs: list[tuple[int, int]], values: Callable[[], Mapping[str, Any]] = dict) -> None:
        self.rows[name] = [{"s": s, "d": d, **values()} for s, d in pairs]

    def some(self, sources: range, targets: range, share: float) -> list[tuple[int, int]]:
        return [(s, d) for s in sources for d in targets if s != d and self.chance.random() < share]

    def one(self, sources: range, targets: range) -> list[tuple[int, int]]:
        return [(s, self.chance.choice(targets)) for s in sources]


def social(seed: int) -> Network:
    made = Network(seed)
    chance = made.chance
    people, forums, posts, comments = range(14), range(5), range(25), range(25, 65)
    tags, classes, cities, countries = range(7), range(4), range(5), range(100, 103)
    universities, companies = range(3), range(10, 14)
    made.nodes(
        "Person",
        "personId",
        people,
        lambda n: {
            "firstName": chance.choice(["Ann", "Bo"]),
            "lastName": chance.choice(["Ek", "Ost", "Poe"]),
            "gender": chance.choice(["male", "female"]),
            "birthday": dt.date(1980, chance.choice([1, 2, 3, 12]), chance.choice([5, 20, 21, 22, 28])),
            "creationDate": when(chance),
            "locationIP": f"10.0.0.{n}",
            "browserUsed": "Firefox",
            "speaks": chance.choice([None, ["en"], ["de", "en"]]),
            "email": chance.choice([None, [f"p{n}@example.org"]]),
        },
    )
    made.nodes("Forum", "forumId", forums, lambda n: {"title": f"Forum {n % 3}", "creationDate": when(chance)})
    text = lambda n: {"content": f"about {n % 4}"} if chance.random() < 0.7 else {"imageFile": f"{n}.jpg"}  # noqa: E731
    written = {"creationDate": START, "locationIP": "10.0.0.1", "browserUsed": "Opera", "length": 5}
    made.nodes(
        "Message",
        "messageId",
        range(65),
        lambda n: (
            written
            | {"kind": "post" if n in posts else "comment", "creationDate": when(chance), "language": None, **text(n)}
        ),
    )
    named = lambda word: lambda n: {"name": f"{word}{n}", "url": "u"}  # noqa: E731
    made.nodes("Tag", "tagId", tags, named("tag"))
    made.nodes("TagClass", "tagClassId", classes, named("class"))
    made.nodes("City", "placeId", cities, named("city"))
    made.nodes("Country", "placeId", countries, named("country"))
    made.nodes("Continent", "placeId", range(200, 201), named("continent"))
    made.nodes("University", "organisationId", universities, named("university"))
    made.nodes("Company", "organisationId", companies, named("company"))
    known = [(s, d) for s, d in made.some(range(13), range(13), 0.2) if s < d or chance.random() < 0.5]
    known = [(s, d) for s, d in known if s < d or (d, s) not in known]
    made.edges("Knows", known, lambda: {"creationDate": when(chance)})
    made.edges("HasInterest", made.some(people, tags, 0.3))
    made.edges("LivesIn", made.one(people, cities))
    made.edges("StudyAt", made.some(people, universities, 0.3), lambda: {"classYear": chance.choice([2000, 2001])})
    made.edges("WorkAt", made.some(people, companies, 0.3), lambda: {"workFrom": chance.choice([2004, 2005, 2006])})
    made.edges("Likes", made.some(people, range(65), 0.1), lambda: {"creationDate": when(chance)})
    made.edges("HasCreator", made.one(range(65), people))
    made.edges("ReplyOf", [(n, chance.choice(range(25) if chance.random() < 0.5 else range(n))) for n in comments])
    made.edges("PostedIn", made.one(range(65), countries))
    made.edges("MessageTag", made.some(range(65), tags, 0.2))
    made.edges("ContainerOf", [(forum, post) for post, forum in made.one(posts, forums)])
    made.edges("HasMember", made.some(forums, people, 0.5), lambda: {"joinDate": when(chance)})
    made.edges("HasModerator", made.one(forums, people))
    made.edges("ForumTag", made.some(forums, tags, 0.3))
    made.edges("HasType", made.one(tags, classes))
    made.edges("SubclassOf", [(1, 0), (2, 1), (3, 0)])
    made.edges("CityOf", made.one(cities, countries))
    made.edges("CountryOf", made.one(countries, range(200, 201)))
    made.edges("UniversityIn", made.one(universities, cities))
    made.edges("CompanyIn", made.one(companies, countries))
    return made


def finance(seed: int) -> Network:
    made = Network(seed)
    chance = made.chance
    people, firms, accounts, loans, media = range(6), range(3), range(10, 19), range(4), range(4)
    named = lambda n: {"name": f"n{n}"}  # noqa: E731
    made.nodes("Person", "personId", people, named)
    made.nodes("Company", "companyId", firms, named)
    blocked = lambda n: {"type": chance.choice(["card", "other"]), "isBlocked": chance.random() < 0.5}  # noqa: E731
    made.nodes("Account", "accountId", accounts, blocked)
    made.nodes("Medium", "mediumId", media, blocked)
    made.nodes("Loan", "loanId", loans, lambda n: {"amount": 100.0 * (n % 3 + 1), "balance": 50.0 * n})
    dated = lambda: {"createTime": when(chance)}  # noqa: E731
    sent = lambda: {"amount": chance.randrange(2, 40) / 2, "createTime": when(chance)}  # noqa: E731
    transfers = made.some(accounts, accounts, 0.4)
    made.edges("Transfer", transfers + transfers[::3] + [(12, 12)], sent)
    made.edges("Withdraw", 2 * made.some(accounts, accounts, 0.2), sent)
    made.edges("Deposit", made.some(loans, accounts, 0.4), sent)
    made.edges("Repay", made.some(accounts, loans, 0.3), sent)
    made.edges("SignIn", 2 * made.some(media, accounts, 0.4), dated)
    owners = [(chance.choice([*people, None]), account) for account in accounts]
    made.edges("PersonOwn", [(owner, account) for owner, account in owners if owner is not None])
    made.edges("CompanyOwn", [(chance.choice(firms), account) for owner, account in owners if owner is None])
    made.edges("PersonInvest", 2 * made.some(people, firms, 0.5), dated)
    made.edges("PersonApply", made.some(people, loans, 0.4), dated)
    made.edges("PersonGuarantee", made.some(people, people, 0.25), dated)
    return made


def arguments(file: str, seed: int) -> dict[str, Any]:
    """Values for every parameter; the last seed names nobody."""
    chance = random.Random(seed)
    start = START + dt.timedelta(days=chance.randrange(40))
    nobody = seed == ARGUMENTS - 1
    if file == "finbench":
        first, second = chance.sample(range(10, 19), 2)
        return {
            "account": {"id": first, "id1": first, "id2": second if chance.random() < 0.8 else first},
            "person": {"id": 77 if nobody else chance.randrange(6), "id1": chance.randrange(3), "id2": chance.randrange(3, 6)},
            "startTime": START - dt.timedelta(days=1) if chance.random() < 0.5 else start,
            "endTime": start + dt.timedelta(days=50),
            "threshold": 4.0,
            "threshold1": 3.0,
            "threshold2": 2.0,
        }  # fmt: skip
    one, other = chance.sample(range(14), 2)
    return {
        "personId": 77 if nobody else 13 if seed == 0 else one,
        "person1Id": one,
        "person2Id": other if chance.random() < 0.8 else one,
        "firstName": "Ann",
        "maxDate": start + dt.timedelta(days=50),
        "startDate": start,
        "durationDays": 45,
        "minDate": start,
        "countryX": "country100",
        "countryY": "country101",
        "country": "country102",
        "tagName": "tag1",
        "tagClass": chance.choice(["class0", "class1"]),
        "month": chance.choice([1, 2, 12]),
        "year": 2006,
        "messageId": 77 if nobody else chance.randrange(65),
    }


ARGUMENTS = 4
OF_PERSONS = {"tcr2", "tcr5", "tcr10", "tcr11", "tcr12"}


def arguments_of(file: str, question: str, plan: ReadPlan, seed: int) -> dict[str, Any]:
    known = arguments(file, seed)
    if file == "finbench":
        known |= known["person" if question in OF_PERSONS else "account"]
    if question == "tcr8":
        known |= {
            "id": 77 if seed == ARGUMENTS - 1 else seed,
            "threshold": 0.3,
            "startTime": START - dt.timedelta(days=1),
        }
    return {parameter.name: known[parameter.name] for parameter in plan.parameters}


def loaded(network: Network, folder: Path, schema: str) -> tuple[View, duckdb.DuckDBPyConnection]:
    repository = new_graph(str(folder / schema), (FOLDER / f"{schema}.pg").read_text())
    catalog = repository.head("main")[1].catalog
    connection = duckdb.connect(config={"threads": 1})
    types: dict[str, NodeType | EdgeType] = {**catalog.nodes, **catalog.edges}
    records: Rows = []
    for name, rows in network.rows.items():
        ends = ["s", "d"] if name in catalog.edges else []
        columns = {end: pa.int64() for end in ends}
        for property_ in types[name].properties.values():
            type_ = ARROW[property_.type.scalar]
            columns[property_.name] = pa.list_(type_) if property_.type.is_list else type_
        connection.register("rows", pa.Table.from_pylist(rows, pa.schema(columns)))
        connection.execute(f"create table {name} as from rows")
        for row in rows:
            data = {key: _text(value) for key, value in row.items() if key not in ends}
            place = {"edge": name, "from": str(row["s"]), "to": str(row["d"])} if ends else {"type": name}
            records.append({**place, "data": data})
    if schema == "social":
        connection.execute(VIEWS)
    return commit(repository, records), connection


def _text(value: Any) -> Any:
    return value.isoformat() + ("Z" if isinstance(value, dt.datetime) else "") if isinstance(value, dt.date) else value


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """Two networks, each with the graph and the tables of both schemas."""
    made: list[dict[str, tuple[View, duckdb.DuckDBPyConnection]]] = []
    for seed in (1, 2):
        folder = tmp_path_factory.mktemp("ldbc")
        made.append(
            {"social": loaded(social(seed), folder, "social"), "finance": loaded(finance(seed), folder, "finance")}
        )
    yield made
    for _, connection in (pair for network in made for pair in network.values()):
        connection.close()


def compiled(file: str, question: str, catalog: Catalog) -> ReadPlan:
    plan = compile_query(TEXTS[file], catalog, name=question)
    assert isinstance(plan, ReadPlan)
    return plan


def values(rows: list[Any]) -> list[Any]:
    """Rows as tuples, and instants as SQL has them."""
    plain = lambda value: value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value  # noqa: E731
    return [tuple(map(plain, row.values() if isinstance(row, dict) else row)) for row in rows]


def check(
    view: View, connection: duckdb.DuckDBPyConnection, file: str, question: str, run: Callable[..., Result], seed: int
) -> int:
    plan = compiled(file, question, view.catalog)
    known = arguments_of(file, question, plan, seed)
    expected = values(connection.execute(SQL[question], known).fetchall())
    result = run(view, plan, bind_parameters(plan.parameters, known))
    assert values(result.rows) == expected, (question, known)
    return len(expected)


@pytest.mark.parametrize(("file", "question"), QUESTIONS)
def test_one_query_gives_what_sql_gives(networks: Any, file: str, question: str) -> None:
    sizes = [
        check(*network[FILES[file]], file, question, run_read, seed)
        for network in networks
        for seed in range(ARGUMENTS)
    ]
    assert max(sizes) > 0, "what is compared is not always empty"


def test_every_question_is_asked() -> None:
    names = {name for _, name in QUESTIONS}
    assert names == SQL.keys()
    assert (len(names), len(SQL)) == (42, 42)


def test_the_page_shows_every_question_as_it_is_asked() -> None:
    """docs/reference/ldbc.md is what tools/ldbc_page.py makes."""
    tool = runpy.run_path(str(FOLDER.parents[1] / "tools" / "ldbc_page.py"))
    page = tool["PAGE"].read_text()
    assert page == tool["page"]()
    queries = [text for file in TEXTS.values() for text in file.strip().split("\n\nquery ")]
    assert len(queries) == len(QUESTIONS)
    assert [text for text in queries if text not in page] == []


@pytest.mark.spark
@pytest.mark.parametrize(("file", "question"), [("finbench", "tcr1"), ("lsqb", "q7")])
def test_a_sample_on_spark(networks: Any, spark: Any, file: str, question: str) -> None:
    check(*networks[0][FILES[file]], file, question, _on_spark(spark), 1)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize(("file", "question"), QUESTIONS)
def test_every_question_on_spark(networks: Any, spark: Any, file: str, question: str) -> None:
    check(*networks[0][FILES[file]], file, question, _on_spark(spark), 2)


def _on_spark(spark: Any) -> Callable[..., Result]:
    from omnigraph.spark.queries import run_read_on_spark

    return lambda view, plan, parameters: run_read_on_spark(view, plan, parameters, spark)

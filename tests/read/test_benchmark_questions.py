"""Questions of public graph benchmarks (SNB Interactive, LSQB, FinBench), one query each, against SQL over the same generated rows.

The network is small, and has people without friends, ties, missing times, and messages that nobody answers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from read.graphs import commit, new_graph

from omnigraph.language.parameters import bind_parameters
from omnigraph.language.query.compiler import compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read import run_read
from omnigraph.views import View

NODES = {
    "Person": {"name": "String @key", "first": "String"},
    "City": {"name": "String @key"},
    "Country": {"name": "String @key"},
    "Forum": {"title": "String @key"},
    "Post": {"code": "String @key", "posted": "I64?"},
    "Comment": {"code": "String @key", "posted": "I64?"},
    "Tag": {"name": "String @key"},
    "TagClass": {"name": "String @key"},
    "Account": {"code": "String @key"},
    "Medium": {"code": "String @key", "blocked": "Bool"},
}
EDGES = {
    "Knows": ("Person", "Person", {}),
    "LivesIn": ("Person", "City", {}),
    "PartOf": ("City", "Country", {}),
    "Member": ("Forum", "Person", {"joined": "I64"}),
    "Holds": ("Forum", "Post", {}),
    "WrotePost": ("Person", "Post", {}),
    "WroteComment": ("Person", "Comment", {}),
    "AnswersPost": ("Comment", "Post", {}),
    "AnswersComment": ("Comment", "Comment", {}),
    "PostTag": ("Post", "Tag", {}),
    "CommentTag": ("Comment", "Tag", {}),
    "Interest": ("Person", "Tag", {}),
    "OfClass": ("Tag", "TagClass", {}),
    "Transfer": ("Account", "Account", {"amount": "I64", "time": "I64"}),
    "SignIn": ("Medium", "Account", {}),
}
FRIENDS = """friends AS (SELECT src AS a, dst AS b FROM Knows UNION SELECT dst, src FROM Knows),
near AS (SELECT b FROM friends WHERE a = 'p1' UNION SELECT g.b FROM friends f JOIN friends g ON f.b = g.a
         WHERE f.a = 'p1' AND g.b != 'p1')"""

QUESTIONS: dict[str, tuple[str, str]] = {
    "LSQB 1": (
        """match { $p livesIn $c  $c partOf $n  $f member $p  $f holds $post  $m answersPost $post  $m commentTag $t  $t ofClass $k }
        return { count($k) as n }""",
        """SELECT count(*) AS n FROM LivesIn l JOIN PartOf o ON l.dst = o.src JOIN Member m ON m.dst = l.src
        JOIN Holds h ON h.src = m.src JOIN AnswersPost a ON a.dst = h.dst JOIN CommentTag t ON t.src = a.src
        JOIN OfClass c ON c.src = t.dst""",
    ),
    "LSQB 2": (
        "match { $a <knows> $b  $a wroteComment $c  $c answersPost $d  $b wrotePost $d } return { count($c) as n }",
        """WITH friends AS (SELECT src AS a, dst AS b FROM Knows UNION SELECT dst, src FROM Knows)
        SELECT count(*) AS n FROM friends f JOIN WroteComment w ON w.src = f.a JOIN AnswersPost r ON r.src = w.dst
        JOIN WrotePost p ON p.dst = r.dst AND p.src = f.b""",
    ),
    "LSQB 3": (
        """match { $a <knows> $b  $b <knows> $c  $a <knows> $c  $a livesIn $x  $b livesIn $y  $c livesIn $z
          $x partOf $n  $y partOf $n  $z partOf $n } return { count($n) as n }""",
        """WITH friends AS (SELECT src AS a, dst AS b FROM Knows UNION SELECT dst, src FROM Knows),
        home AS (SELECT l.src AS p, o.dst AS n FROM LivesIn l JOIN PartOf o ON l.dst = o.src)
        SELECT count(*) AS n FROM friends f JOIN friends g ON f.b = g.a JOIN friends h ON h.a = f.a AND h.b = g.b
        JOIN home x ON x.p = f.a JOIN home y ON y.p = f.b AND y.n = x.n JOIN home z ON z.p = g.b AND z.n = x.n""",
    ),
    "LSQB 5": (
        """match { $m postTag $s  $c answersPost $m  $c commentTag $t  $s != $t } with { $c.code as code }
        union all match { $m commentTag $s  $c answersComment $m  $c commentTag $t  $s != $t } with { $c.code as code }
        return { count(code) as n }""",
        """WITH message AS (SELECT * FROM PostTag UNION ALL SELECT * FROM CommentTag),
        answer AS (SELECT * FROM AnswersPost UNION ALL SELECT * FROM AnswersComment)
        SELECT count(*) AS n FROM message m JOIN answer a ON a.dst = m.src JOIN CommentTag t ON t.src = a.src
        WHERE t.dst != m.dst""",
    ),
    "LSQB 8": (
        """match { $m postTag $s  $c answersPost $m  $c commentTag $t  $s != $t  not { $c commentTag $s } } with { $c.code as code }
        union all match { $m commentTag $s  $c answersComment $m  $c commentTag $t  $s != $t  not { $c commentTag $s } } with { $c.code as code }
        return { count(code) as n }""",
        """WITH message AS (SELECT * FROM PostTag UNION ALL SELECT * FROM CommentTag),
        answer AS (SELECT * FROM AnswersPost UNION ALL SELECT * FROM AnswersComment)
        SELECT count(*) AS n FROM message m JOIN answer a ON a.dst = m.src JOIN CommentTag t ON t.src = a.src
        WHERE t.dst != m.dst AND NOT EXISTS (SELECT 1 FROM CommentTag x WHERE x.src = a.src AND x.dst = m.dst)""",
    ),
    "LSQB 6": (
        "match { $a <knows> $b  $b <knows> $c  $c interest $t  $a != $c } return { count($t) as n }",
        """WITH friends AS (SELECT src AS a, dst AS b FROM Knows UNION SELECT dst, src FROM Knows)
        SELECT count(*) AS n FROM friends f JOIN friends g ON f.b = g.a JOIN Interest i ON i.src = g.b WHERE f.a != g.b""",
    ),
    "LSQB 9": (
        "match { $a <knows> $b  $b <knows> $c  $c interest $t  $a != $c  not { $a <knows> $c } } return { count($t) as n }",
        """WITH friends AS (SELECT src AS a, dst AS b FROM Knows UNION SELECT dst, src FROM Knows)
        SELECT count(*) AS n FROM friends f JOIN friends g ON f.b = g.a JOIN Interest i ON i.src = g.b WHERE f.a != g.b
        AND NOT EXISTS (SELECT 1 FROM friends h WHERE h.a = f.a AND h.b = g.b)""",
    ),
    "SNB 1": (
        """match { $p: Person { name: "p1" }  shortest path $w from $p to $f along <knows>{1,3}  $f.first = "Ann" }
        return { $f.name as friend, $w.length as distance } order { distance, friend } limit 20""",
        """WITH RECURSIVE friends AS (SELECT src AS a, dst AS b FROM Knows UNION SELECT dst, src FROM Knows),
        walk(b, d) AS (SELECT 'p1', 0 UNION SELECT f.b, w.d + 1 FROM walk w JOIN friends f ON f.a = w.b WHERE w.d < 3)
        SELECT b AS friend, min(d) AS distance FROM walk JOIN Person ON name = b WHERE b != 'p1' AND first = 'Ann'
        GROUP BY b ORDER BY distance, friend LIMIT 20""",
    ),
    "SNB 4": (
        """match { $p: Person { name: "p1" }  $p <knows> $f  $f wrotePost $m  $m postTag $t  $m.posted >= 30  $m.posted < 80
          not { $p <knows> $g  $g wrotePost $o  $o postTag $t  $o.posted < 30 } }
        return { $t.name as tag, count($m) as posts } order { posts desc, tag } limit 10""",
        """WITH friends AS (SELECT src AS a, dst AS b FROM Knows UNION SELECT dst, src FROM Knows),
        tagged AS (SELECT t.dst AS tag, p.posted FROM friends f JOIN WrotePost w ON w.src = f.b JOIN Post p ON p.code = w.dst
          JOIN PostTag t ON t.src = p.code WHERE f.a = 'p1')
        SELECT tag, count(*) AS posts FROM tagged WHERE posted >= 30 AND posted < 80
        AND tag NOT IN (SELECT tag FROM tagged WHERE posted < 30) GROUP BY tag ORDER BY posts DESC, tag LIMIT 10""",
    ),
    "SNB 5": (
        """match { $p: Person { name: "p1" }  $p <knows>{1,2} $f  $o $m:member $f  $m.joined > 20 } with distinct { $o, $f }
        match { optional { $f wrotePost $post  $o holds $post } }
        return { $o.title as forum, count($post) as posts } order { posts desc, forum } limit 20""",
        f"""WITH {FRIENDS}, joined AS (SELECT DISTINCT m.src AS o, m.dst AS f FROM Member m JOIN near ON near.b = m.dst
          WHERE m.joined > 20)
        SELECT o AS forum, count(h.dst) AS posts FROM joined LEFT JOIN (SELECT w.src AS f, h.src AS o, h.dst FROM WrotePost w
          JOIN Holds h ON h.dst = w.dst) h USING (o, f) GROUP BY o ORDER BY posts DESC, forum LIMIT 20""",
    ),
    "SNB 6": (
        """match { $p: Person { name: "p1" }  $p <knows>{1,2} $f  $f wrotePost $m  $m postTag $t  $t.name = "t0"
          $m postTag $o  $o != $t } return { $o.name as tag, count($m) as posts } order { posts desc, tag } limit 10""",
        f"""WITH {FRIENDS} SELECT o.dst AS tag, count(*) AS posts FROM near JOIN WrotePost w ON w.src = near.b
        JOIN PostTag t ON t.src = w.dst AND t.dst = 't0' JOIN PostTag o ON o.src = w.dst AND o.dst != 't0'
        GROUP BY o.dst ORDER BY posts DESC, tag LIMIT 10""",
    ),
    "SNB 9": (
        """match { $p: Person { name: "p1" }  $p <knows>{1,2} $f } with { $f }
        match { $f wrotePost $m  $m.posted < 90 } return { $f.name as who, $m.code as code, $m.posted as posted }
        union all match { $f wroteComment $m  $m.posted < 90 } return { $f.name as who, $m.code as code, $m.posted as posted }
        order { posted desc, code } limit 20""",
        f"""WITH {FRIENDS}, message AS (SELECT w.src, p.code, p.posted FROM WrotePost w JOIN Post p ON p.code = w.dst
          UNION ALL SELECT w.src, c.code, c.posted FROM WroteComment w JOIN Comment c ON c.code = w.dst)
        SELECT src AS who, code, posted FROM message JOIN near ON near.b = src WHERE posted < 90 ORDER BY posted DESC, code LIMIT 20""",
    ),
    "SNB 13": (
        """match { $a: Person { name: "p1" }  $b: Person  optional { shortest path $w from $a to $b along <knows>{0,16} } }
        return { $b.name as other, coalesce($w.length, -1) as hops } order { other }""",
        """WITH RECURSIVE friends AS (SELECT src AS a, dst AS b FROM Knows UNION SELECT dst, src FROM Knows),
        walk(b, d) AS (SELECT 'p1', 0 UNION SELECT f.b, w.d + 1 FROM walk w JOIN friends f ON f.a = w.b WHERE w.d < 16)
        SELECT name AS other, coalesce(min(d), -1) AS hops FROM Person LEFT JOIN walk ON b = name GROUP BY name ORDER BY name""",
    ),
    "FinBench 1": (
        """match { $a: Account { code: "a0" }  shortest path $w from $a to $b along $t:transfer{1,3} after $s where $t.time > $s.time
          and $t.time < 90  $m signIn $b  $m.blocked = true }
        return { $b.code as other, $w.length as distance, $m.code as medium } order { distance, other, medium }""",
        """WITH RECURSIVE walk(b, time, d) AS (SELECT dst, time, 1 FROM Transfer WHERE src = 'a0' AND time < 90 AND dst != 'a0'
          UNION SELECT t.dst, t.time, w.d + 1 FROM walk w JOIN Transfer t ON t.src = w.b
          WHERE t.time > w.time AND t.time < 90 AND w.d < 3 AND t.dst != t.src)
        SELECT b AS other, min(d) AS distance, m.code AS medium FROM walk JOIN SignIn s ON s.dst = b
        JOIN Medium m ON m.code = s.src AND m.blocked WHERE b != 'a0' GROUP BY b, m.code ORDER BY distance, other, medium""",
    ),
    "FinBench 4": (
        """match { $a: Account { code: "a0" }  $a transfer $b  $b $e:transfer $o  exists { $o transfer $a } }
        with { $a, $b, $o, count($e) as onwards, sum($e.amount) as sent } match { $o $g:transfer $a }
        return { $b.code as b, $o.code as other, onwards, sent, count($g) as back, max($g.amount) as most } order { sent desc, b, other }""",
        """WITH direct AS (SELECT DISTINCT dst AS b FROM Transfer WHERE src = 'a0'),
        onwards AS (SELECT b, dst AS o, count(*) AS onwards, sum(amount) AS sent FROM direct JOIN Transfer ON src = b GROUP BY b, dst),
        back AS (SELECT src AS o, count(*) AS back, max(amount) AS most FROM Transfer WHERE dst = 'a0' GROUP BY src)
        SELECT b, o AS other, onwards, CAST(sent AS BIGINT) AS sent, back, most FROM onwards JOIN back USING (o)
        ORDER BY sent DESC, b, other""",
    ),
}


def _network(seed: int) -> tuple[dict[str, list[dict[str, Any]]], dict[str, list[dict[str, Any]]]]:
    chance = random.Random(seed)
    sizes = {"Person": 9, "City": 4, "Country": 2, "Forum": 4, "Post": 12, "Comment": 14, "Tag": 5, "TagClass": 2}
    letters = {"Person": "p", "Tag": "t", "Account": "a"}
    nodes: dict[str, list[dict[str, Any]]] = {}
    for type_name, properties in NODES.items():
        key, *others = properties
        rows = [{key: f"{letters.get(type_name, type_name)}{n}"} for n in range(sizes.get(type_name, 7))]
        for row in rows:
            values = {"first": chance.choice(["Ann", "Bo"]), "posted": chance.choice([None, *range(0, 100, 10)])}
            row |= {name: values.get(name, chance.random() < 0.5) for name in others}
        nodes[type_name] = rows
    ids = {name: [next(iter(row.values())) for row in rows] for name, rows in nodes.items()}
    edges: dict[str, list[dict[str, Any]]] = {}
    for name, (source, target, properties) in EDGES.items():
        pairs = [(a, b) for a in ids[source] for b in ids[target] if a != b]
        pairs = chance.sample(pairs, min(len(pairs), 12 if name in ("Knows", "Transfer") else 16))
        if name == "Knows":  # nobody twice, and one person without friends
            pairs = [pair for pair in pairs if pair[::-1] not in pairs[: pairs.index(pair)] and "p8" not in pair]
        if name in ("LivesIn", "PartOf", "WrotePost", "WroteComment", "AnswersPost", "Holds", "OfClass"):
            first = {"WrotePost": 1, "WroteComment": 1, "Holds": 1}.get(name, 0)
            pairs = list({pair[first]: pair for pair in pairs}.values())
        pairs += pairs[:4] if name == "Transfer" else []
        drawn = {"joined": (0, 40), "amount": (1, 9), "time": (0, 99)}
        edges[name] = [
            {"src": a, "dst": b, **{field: chance.randint(*drawn[field]) for field in properties}} for a, b in pairs
        ]
    return nodes, edges


@pytest.fixture(scope="module", params=[1, 2, 3])
def network(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[View, Any]]:
    nodes, edges = _network(request.param)
    fields = {name: "  ".join(f"{key}: {type_}" for key, type_ in known.items()) for name, known in NODES.items()}
    schema = [f"node {name} {{ {text} }}" for name, text in fields.items()]
    for name, (source, target, properties) in EDGES.items():
        text = "  ".join(f"{key}: {type_}" for key, type_ in properties.items())
        schema.append(f"edge {name}: {source} -> {target}" + (f" {{ {text} }}" if text else ""))
    records: list[dict[str, Any]] = [{"type": name, "data": row} for name, rows in nodes.items() for row in rows]
    for name, rows in edges.items():
        for row in rows:
            data = {key: value for key, value in row.items() if key not in ("src", "dst")}
            records.append({"edge": name, "from": row["src"], "to": row["dst"], "data": data})
    view = commit(new_graph(str(tmp_path_factory.mktemp("network") / "g"), "\n".join(schema)), records)
    connection = duckdb.connect()
    kinds = {"String": "VARCHAR", "I64": "BIGINT", "Bool": "BOOLEAN"}
    for name, rows in (nodes | edges).items():
        known = {key: type_.split()[0].rstrip("?") for key, type_ in (NODES.get(name) or EDGES[name][2]).items()}
        columns = {"src": "String", "dst": "String", **known} if name in EDGES else known
        connection.execute(
            f"CREATE TABLE {name} ({', '.join(f'{key} {kinds[type_]}' for key, type_ in columns.items())})"
        )
        for row in rows:
            connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' for _ in columns)})", list(row.values()))
    yield view, connection
    connection.close()


@pytest.mark.parametrize("question", QUESTIONS)
def test_one_query_gives_what_sql_gives(network: tuple[View, Any], question: str) -> None:
    view, connection = network
    text, sql = QUESTIONS[question]
    plan = compile_query(f"query q() {{ {text} }}", view.catalog)
    assert isinstance(plan, ReadPlan)
    expected = connection.execute(sql).fetchall()
    result = run_read(view, plan, bind_parameters(plan.parameters, {}))
    assert [tuple(row.values()) for row in result.rows] == expected


@pytest.mark.soak
@pytest.mark.spark
def test_spark_gives_the_same(network: tuple[View, Any], spark: Any) -> None:
    from omnigraph.pipeline.spark.queries import run_read_on_spark

    view, connection = network
    for question, (text, sql) in QUESTIONS.items():
        plan = compile_query(f"query q() {{ {text} }}", view.catalog)
        assert isinstance(plan, ReadPlan)
        result = run_read_on_spark(view, plan, {}, spark)
        assert [tuple(row.values()) for row in result.rows] == connection.execute(sql).fetchall(), question

"""Random `MERGE`, `UPDATE` and `DELETE` of the catalog for Spark beside a model of what they say. As a program, over Spark Connect:

    SPARK_REMOTE=local[2] python random_statements.py <folder of graphs> <how many> <seed>

The folder has a graph `people` with nodes `Person`, of which `email` and `age` count.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import omnigraph as og

MAX_AGE = 150
NAMES = 40


def run_statements(sql: Callable[[str], list[Any]], count: int, seed: int) -> int:
    """Each statement leaves what the model says, and the whole is there in every revision. How many rows there are at the end."""
    dice = random.Random(seed)
    ages: dict[str, int | None] = dict(sql("SELECT email, age FROM og.people.Person"))
    for number in range(count):
        limit, step = dice.randrange(MAX_AGE), dice.randrange(1, 9)
        kind = ("UPDATE", "MERGE", "DELETE", "MERGE")[number % 4]
        if kind == "UPDATE":
            sql(f"UPDATE og.people.Person SET age = (age + {step}) % {MAX_AGE} WHERE age < {limit}")
            ages = {
                name: (age + step) % MAX_AGE if age is not None and age < limit else age for name, age in ages.items()
            }
        elif kind == "DELETE":
            sql(f"DELETE FROM og.people.Person WHERE age % {step + 2} = 0 AND age > {limit}")
            ages = {name: age for name, age in ages.items() if age is None or age % (step + 2) != 0 or not age > limit}
        else:
            some = dice.sample(range(NAMES), dice.randrange(1, 12))
            rows = {f"p{name}": dice.randrange(MAX_AGE) for name in some}
            source = ", ".join(f"('{name}', {age})" for name, age in rows.items())
            sql(
                f"MERGE INTO og.people.Person p USING (SELECT * FROM VALUES {source} AS s(email, age)) s ON p.email = s.email "
                f"WHEN MATCHED AND s.age < {limit} THEN DELETE WHEN MATCHED THEN UPDATE SET age = s.age "
                "WHEN NOT MATCHED THEN INSERT (email, age) VALUES (s.email, s.age)"
            )
            kept = {name: age for name, age in rows.items() if not (name in ages and age < limit)}
            ages = {name: age for name, age in ages.items() if name not in rows} | kept
        found = sql("SELECT email, age FROM og.people.Person")
        assert (len(found), dict(found)) == (len(ages), ages), (number, kind)
    return len(ages)


if __name__ == "__main__":
    from omnigraph.spark.sessions import spark_session

    root, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    spark = spark_session(memory="1g")
    og.spark.catalog(spark, root)
    run_statements(lambda statement: [tuple(row) for row in spark.sql(statement).collect()], count, seed)
    print(f"{count} statements in {type(spark).__module__}")
    spark.stop()

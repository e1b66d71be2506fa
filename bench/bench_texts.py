"""A question in words over short texts, end to end and offline: load with embedding (which makes the index too), ask; and how much
of the exact answer comes back at the default settings.

    python bench/bench_texts.py [--texts N] [--questions N]

Beside each stage stands its bare peer in the same run: the model alone (tokenizer and table of vectors), and Lance alone (the same rows
written and indexed without rules, keys or commits). Times are of the clock and of the processor.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import lance
import numpy as np
import pyarrow as pa

import omnigraph as og
from omnigraph._internal.deadlines import Deadline
from omnigraph.embedding.settings import WordLlama

DIMENSION = 256
NEAREST = 10
TOPICS, WORDS_OF_TOPIC = 400, 60
SCHEMA = f'node Note {{ slug: String @key  text: String  vec: Vector({DIMENSION}) @embed("text") @index }}'
PLAIN = f"node Note {{ slug: String @key  text: String  vec: Vector({DIMENSION}) @index }}"
ASK = """query about($text: String) {
  match { $n: Note } return { $n.slug as slug, nearest($n.vec, $text) as distance } order { distance } limit 10
}"""
Result = TypeVar("Result")


def made_texts(model: WordLlama, count: int) -> list[str]:
    """Short texts of English words, each about one of many topics."""
    chance = random.Random(21)
    words = sorted(
        word.removeprefix("▁").lower()
        for word in model._tokenizer.get_vocab()
        if word.startswith("▁") and word[1:].isascii() and word[1:].isalpha() and len(word) > 4
    )
    topics = [chance.sample(words, WORDS_OF_TOPIC) for _ in range(TOPICS)]
    return [" ".join(chance.sample(chance.choice(topics), chance.randint(5, 12))) for _ in range(count)]


class Stages:
    def __init__(self) -> None:
        print(f"{'stage':44} {'clock s':>9} {'CPU s':>8}")
        self.seconds: dict[str, float] = {}

    def run(self, name: str, work: Callable[[], Result]) -> Result:
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        self.seconds[name] = time.process_time() - cpu
        print(f"{name:44} {time.perf_counter() - wall:9.2f} {self.seconds[name]:8.2f}", flush=True)
        return result

    def ratio(self, name: str, *bare: str) -> None:
        below = sum(self.seconds[each] for each in bare)
        print(f"{name} / {' + '.join(bare)}: {self.seconds[name] / below:.2f}x CPU")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--texts", type=int, default=100_000)
    arguments.add_argument("--questions", type=int, default=200)
    options = arguments.parse_args()
    model = WordLlama()
    texts = made_texts(model, options.texts)
    questions = made_texts(model, options.texts + options.questions)[options.texts :]
    slugs = [f"n{number:07}" for number in range(len(texts))]
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), model, slugs, texts, questions)


def compare(folder: Path, model: WordLlama, slugs: list[str], texts: list[str], questions: list[str]) -> None:
    stages = Stages()
    model.embed(texts[:1], DIMENSION, "document", Deadline(None))  # the model is read once

    def embedded(some: list[str]) -> np.ndarray:
        pieces = [some[start : start + model.max_texts] for start in range(0, len(some), model.max_texts)]
        return np.concatenate([model.embed(each, DIMENSION, "document", Deadline(None)) for each in pieces])

    vectors = stages.run("bare model", lambda: embedded(texts)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    column = pa.FixedSizeListArray.from_arrays(pa.array(unit.ravel()), DIMENSION)
    rows = pa.table({"slug": slugs, "text": texts, "vec": column})
    bare = stages.run("bare Lance: write", lambda: lance.write_dataset(rows, folder / "bare.lance"))
    partitions = max(1, len(texts) // 4096)
    stages.run(
        "bare Lance: index",
        lambda: bare.create_index("vec", "IVF_FLAT", metric="cosine", num_partitions=partitions),
    )
    given = og.init(folder / "given", PLAIN)
    stages.run("load, vectors given", lambda: given.load({"Note": rows}, mode="append", engine="local"))
    graph = og.init(folder / "graph", SCHEMA)
    plain = rows.select(["slug", "text"])
    stages.run("load, embedding each text", lambda: graph.load({"Note": plain}, mode="append", engine="local"))
    ask(stages, graph, lance.dataset(folder / "bare.lance"), model, unit, slugs, questions)
    stages.ratio("load, embedding each text", "bare model")
    stages.ratio("load, embedding each text", "bare model", "bare Lance: write", "bare Lance: index")
    stages.ratio("load, vectors given", "bare Lance: write", "bare Lance: index")
    stages.ratio("ask", "bare ask")


def ask(
    stages: Stages,
    graph: og.Graph,
    bare: Any,
    model: WordLlama,
    unit: np.ndarray,
    slugs: list[str],
    questions: list[str],
) -> None:
    asked = [model.embed([each], DIMENSION, "query", Deadline(None))[0] for each in questions]
    graph.query(ASK, {"text": "one to begin with"})

    def ours() -> list[list[str]]:
        return [[row["slug"] for row in graph.query(ASK, {"text": each}).rows] for each in questions]

    def alone() -> None:
        for each in questions:
            vector = model.embed([each], DIMENSION, "query", Deadline(None))[0]
            near = {"column": "vec", "q": pa.array(vector, pa.float32()), "k": NEAREST, "metric": "cosine"}
            bare.to_table(columns=["slug", "_distance"], nearest=near)

    stages.run("bare ask", alone)
    found = stages.run("ask", ours)
    hits = 0
    for vector, answer in zip(asked, found, strict=True):
        exact = np.argsort(-(unit @ (vector / np.linalg.norm(vector))), kind="stable")[:NEAREST]
        hits += len({slugs[place] for place in exact} & set(answer))
    print(f"recall of the nearest {NEAREST}: {hits / (NEAREST * len(questions)):.3f}, {len(questions)} questions")
    print(f"a question: {1000 * stages.seconds['ask'] / len(questions):.1f} ms CPU")


if __name__ == "__main__":
    main()

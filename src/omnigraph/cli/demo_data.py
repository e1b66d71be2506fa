"""The demo's data: people who follow each other (a few of them very popular), where they live and what they like.

Deterministic: the same sizes give the same files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SCHEMA = """\
// A small social network.
interface Named { name: String }

node Person implements Named {
  handle: String @key
  tier: enum(free, pro) @index
  born: Date?
  bio: String?
}
node City implements Named { country: String  @key(name) }
node Interest { name: String @key }

edge Follows: Person -> Person { since: Date? }
edge LivesIn: Person -> City @card(0..1)
edge Likes: Person -> Interest
"""

_COUNTRIES = ("France", "Kenya", "Japan", "Brazil", "Canada", "India", "Norway", "Chile")
_INTERESTS = ("chess", "climbing", "jazz", "sailing", "cooking", "astronomy", "gardening", "running", "pottery", "film")
_FIRST = ("Ana", "Ben", "Chi", "Dag", "Eva", "Finn", "Gul", "Hana", "Ivo", "Jun", "Kofi", "Lea", "Mia", "Noor", "Ola")
_LAST = ("Abe", "Berg", "Costa", "Diaz", "Eze", "Fox", "Gray", "Holt", "Iqbal", "Jung", "Kim", "Lund", "Mora", "Nash")


@dataclass(frozen=True)
class Sizes:
    persons: int
    cities: int
    follows: int
    likes: int

    @classmethod
    def full(cls) -> Sizes:
        return cls(persons=99_500, cities=490, follows=750_000, likes=150_500)

    @classmethod
    def small(cls) -> Sizes:
        return cls(persons=1_940, cities=50, follows=6_000, likes=2_060)

    @property
    def nodes(self) -> int:
        return self.persons + self.cities + len(_INTERESTS)

    @property
    def edges(self) -> int:
        return self.persons + self.follows + self.likes


def write_files(folder: Path, sizes: Sizes) -> list[str]:
    """Write nodes and edges to separate files of JSON lines; returns their paths."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2026)
    nodes, edges = folder / "nodes.jsonl", folder / "edges.jsonl"
    with nodes.open("w", encoding="utf-8") as out:
        for city in range(sizes.cities):
            country = _COUNTRIES[city % len(_COUNTRIES)]
            out.write(f'{{"type":"City","data":{{"name":"City {city}","country":"{country}"}}}}\n')
        for name in _INTERESTS:
            out.write(f'{{"type":"Interest","data":{{"name":"{name}"}}}}\n')
        born = rng.integers(-7_000, 14_000, sizes.persons)
        for person in range(sizes.persons):
            name = f"{_FIRST[person % len(_FIRST)]} {_LAST[person // 7 % len(_LAST)]}"
            tier = "pro" if person % 10 == 0 else "free"
            out.write(
                f'{{"type":"Person","data":{{"handle":"p{person}","name":"{name}","tier":"{tier}",'
                f'"born":{born[person]},"bio":"likes {_INTERESTS[person % 10]} and {_INTERESTS[person // 3 % 10]}"}}}}\n'
            )
    with edges.open("w", encoding="utf-8") as out:
        source = rng.integers(0, sizes.persons, sizes.follows)
        target = rng.zipf(1.5, sizes.follows) % sizes.persons
        since = rng.integers(14_000, 20_500, sizes.follows)
        for a, b, day in zip(source.tolist(), target.tolist(), since.tolist(), strict=True):
            out.write(f'{{"edge":"Follows","from":"p{a}","to":"p{b}","data":{{"since":{day}}}}}\n')
        for person, city in enumerate(rng.integers(0, sizes.cities, sizes.persons).tolist()):
            out.write(f'{{"edge":"LivesIn","from":"p{person}","to":"City {city}"}}\n')
        fans = rng.integers(0, sizes.persons, sizes.likes).tolist()
        for fan, liked in zip(fans, rng.integers(0, len(_INTERESTS), sizes.likes).tolist(), strict=True):
            out.write(f'{{"edge":"Likes","from":"p{fan}","to":"{_INTERESTS[liked]}"}}\n')
    return [str(nodes), str(edges)]

"""The graph that the tests of the studio look at: people, companies and cities, with branches, a tag and three conflicts."""

from __future__ import annotations

import json
import random
from pathlib import Path

import omnigraph as og

SCHEMA = """
node Person {
  name: String @key
  email: String? @unique
  age: I32?
  role: enum(analyst, engineer, manager)?
  born: Date?
  bio: String?
  @range(age, 0..150)
}
node Company { name: String @key  founded: Date?  staff: I32? }
node City { name: String @key  country: String? }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company @card(0..1) { title: String? }
edge LivesIn: Person -> City @card(0..1)
"""
FIRST = [
    "Ada",
    "Bo",
    "Cy",
    "Dee",
    "Eli",
    "Fay",
    "Gus",
    "Hana",
    "Ian",
    "Jo",
    "Kai",
    "Lea",
    "Mio",
    "Nia",
    "Oto",
    "Pia",
    "Quin",
    "Rui",
    "Sol",
    "Tea",
    "Uma",
    "Vic",
    "Wes",
    "Xan",
    "Yara",
    "Zoe",
]
LAST = ["Lindqvist", "Moreau", "Okafor", "Tanaka", "Silva"]
COMPANIES = ("Northwind", "Halcyon Labs", "Meridian", "Blue Orchard", "Kestrel", "Tidewater")
CITIES = {
    "Paris": "France",
    "Lisbon": "Portugal",
    "Kyoto": "Japan",
    "Lagos": "Nigeria",
    "Oslo": "Norway",
    "Quito": "Ecuador",
}
ROLES = ("analyst", "engineer", "manager")
QUERIES = """
query near($who: String) @description("People within two steps") {
  match { $a: Person { name: $who }  $a knows{1,2} $b }
  return { $b.name as name, $b.role as role }
  order { name }
}
query staff($company: String) {
  match { $c: Company { name: $company }  $p: Person  $p worksAt $c }
  return { $p.name as name, $p.age as age }
  order { name }
}
"""


def records(people: int = 60) -> list[dict[str, object]]:
    """The same people every time."""
    chance = random.Random(7)
    names = [f"{first} {last}" for last in LAST for first in FIRST][:people]
    lines: list[dict[str, object]] = []
    for number, name in enumerate(names):
        email = f"{name.lower().replace(' ', '.')}@example.com"
        person = {"name": name, "email": email, "age": 22 + number * 7 % 45, "role": ROLES[number % 3]}
        person["born"] = f"{1960 + number % 45}-{1 + number % 12:02}-{1 + number % 28:02}"
        if number % 4 == 0:
            person["bio"] = f"{name.split()[0]} maps supply chains and collects old atlases."
        lines.append({"type": "Person", "data": person})
    lines += [{"type": "Company", "data": {"name": name, "founded": f"{1990 + at}-03-01", "staff": 40 * at + 12}}
              for at, name in enumerate(COMPANIES)]  # fmt: skip
    lines += [{"type": "City", "data": {"name": name, "country": country}} for name, country in CITIES.items()]
    cities = list(CITIES)
    for number, name in enumerate(names):
        for other in chance.sample(names, 2):
            if other != name:
                data = {"since": f"{2010 + number % 14}-05-01"}
                lines.append({"edge": "Knows", "from": name, "to": other, "data": data})
        employer = COMPANIES[number * number % len(COMPANIES)]
        lines.append({"edge": "WorksAt", "from": name, "to": employer, "data": {"title": ROLES[number % 3]}})
        lines.append({"edge": "LivesIn", "from": name, "to": cities[number % len(cities)]})
    return lines


def write_lines(place: Path, lines: list[dict[str, object]]) -> Path:
    place.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return place


def make_demo(place: Path) -> Path:
    """main with a few commits and a tag; `review` contradicts main three times; `import/hr` can be merged at once."""
    graph = og.init(place, SCHEMA)
    people = write_lines(place.parent / f"{place.name}.jsonl", records())
    graph.load(people, mode="append", engine="local", actor="loader", message="people of the spring survey")
    graph.tags.create("spring", "main")
    with graph.transaction(actor="ada", message="Dee moves to Oslo") as tx:
        tx.update("Person", "Dee Lindqvist", age=41)
        tx.insert("Person", name="Ines Costa", email="ines.costa@example.com", age=33, role="manager")
        tx.insert("Knows", from_="Ines Costa", to="Dee Lindqvist")
    graph.branches.create("import/hr")
    with graph.transaction(branch="import/hr", actor="hr", message="two joiners and a leaver") as tx:
        tx.insert("Person", name="Noor Aziz", email="noor.aziz@example.com", age=29, role="engineer")
        tx.insert("WorksAt", from_="Noor Aziz", to="Kestrel", title="engineer")
        tx.insert("Person", name="Tom Reyes", age=38, role="analyst")
        tx.delete("Person", "Wes Lindqvist")
    graph.branches.create("review")
    with graph.transaction(branch="review", actor="bo", message="corrections of the spring survey") as tx:
        tx.update("Person", "Ada Lindqvist", age=37, role="manager")
        tx.update("Company", "Meridian", staff=140)
        tx.insert("Person", name="Rosa Pinto", email="shared@example.com", age=44, role="analyst")
        tx.update(
            "Person", "Kai Lindqvist", bio="Kai maps supply chains, collects old atlases and restores one each winter."
        )
    with graph.transaction(actor="cy", message="spring corrections on main") as tx:
        tx.update("Person", "Ada Lindqvist", age=36, role="engineer")
        tx.delete("Company", "Meridian")
        tx.insert("Person", name="Luca Ferri", email="shared@example.com", age=51, role="manager")
    graph.branches.create("done/cities")
    with graph.transaction(branch="done/cities", actor="fay", message="a seventh city") as tx:
        tx.insert("City", name="Turin", country="Italy")
    with graph.transaction(actor="ada", message="Gus is a manager now") as tx:
        tx.update("Person", "Gus Lindqvist", role="manager")
    graph.branches.merge("done/cities", "main", actor="ada", message="take the seventh city")
    return place


def make_large(place: Path, people: int = 12_000) -> Path:
    """A type with many rows, a branch that changes 10,000 of them, and one that changes 1,500."""
    graph = og.init(place, SCHEMA)
    lines = [
        {"type": "Person", "data": {"name": f"person {number:06}", "age": number % 90}} for number in range(people)
    ]
    graph.load(write_lines(place.parent / "large.jsonl", lines), mode="append", engine="local", actor="loader")
    graph.branches.create("review")
    for line in lines[:10_000]:
        line["data"]["age"] = 99  # type: ignore[index]  # a dictionary, as above
    graph.load(
        write_lines(place.parent / "review.jsonl", lines[:10_000]), mode="merge", branch="review", engine="local"
    )
    graph.branches.create("some")
    graph.load(write_lines(place.parent / "some.jsonl", lines[:1_500]), mode="merge", branch="some", engine="local")
    return place


HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(1)</script>",
    "\u202egnirts desrever\u202c مرحبا بالعالم",
    "x" * 100_000,
    "bell\x07 null-like \x01 escape\x1b[31m tab\t line\nnext",
    '"quoted" & &amp; {{7*7}} ${7*7} javascript:alert(1)',
)


def make_hostile(place: Path) -> Path:
    """Texts that are markup, run backwards, are very long, or contain control characters."""
    graph = og.init(place, SCHEMA)
    with graph.transaction(actor="<b>mallory</b>", message="<i>message</i> \u202eevil") as tx:
        for number, text in enumerate(HOSTILE):
            name = text if len(text) < 1_000 else f"long {number}"
            tx.insert("Person", name=name, bio=text)
        tx.insert("Knows", from_=HOSTILE[0], to=HOSTILE[1])
    graph.branches.create("a/<b>&%2F")
    with graph.transaction(branch="a/<b>&%2F", actor="mallory") as tx:
        for number, text in enumerate(HOSTILE):
            name = text if len(text) < 1_000 else f"long {number}"
            tx.update("Person", name, bio=f"{text} <b>changed</b>")
    return place

"""Keys and references that inference finds in twelve data sets with the faults of real ones, against a hand-made truth.

Each fact is a key (`Type.column`) or an edge (`Source -column-> Target`). The test prints precision and recall, beside those that the
guesses had before near-references and tables with several references were known.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.language.schema.compiler import compile_schema

Files = dict[str, str]


def csv(header: str, rows: list[list[object]]) -> str:
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def flights(pick: random.Random) -> Files:
    airports, airlines = [f"A{n:02}" for n in range(40)], [f"{a}{b}" for a in "UA" for b in "ABCDEF"]
    dest = [*airports] * 5 + ["BQN", "SJU"]
    rows: list[list[object]] = [
        [
            1 + n % 12,
            pick.choice(airlines),
            n % 90,
            pick.choice([f"N{n % 60}"] * 9 + [""]),
            airports[n % 3],
            pick.choice(dest),
            pick.choice([*range(-9, 90), "NA"]),
            f"2013-{1 + n % 12:02}-{1 + n % 28:02}T{n % 24:02}:00:00Z",
        ]
        for n in range(400)
    ]
    return {
        "airlines.csv": csv("carrier,name", [[code, f"Line {code}"] for code in airlines]),
        "airports.csv": csv("faa,name,dst", [[code, f"Port {code}", "AUN"[n % 3]] for n, code in enumerate(airports)]),
        "planes.csv": csv("tailnum,seats", [[f"N{n}", n] for n in range(50)]),
        "flights.csv": csv("month,carrier,flight,tailnum,origin,dest,dep_delay,time_hour", rows),
    }


def debian(pick: random.Random) -> Files:
    names = [f"lib{n}" for n in range(200)]
    depends = [[name, pick.choice([*names, "libgone"]), pick.choice(["Depends", "Recommends"])] for name in names * 3]
    tags = [[name, f"role::{pick.randint(0, 15)}"] for name in names for _ in range(2)]
    return {
        "packages.csv": csv("package,version,section", [[name, f"1.{n}", "libs"] for n, name in enumerate(names)]),
        "depends.csv": csv(
            "package,depends_on,kind", [*depends, ["lib1", "awk", "Depends"], ["lib1", "mail", "Depends"]]
        ),
        "tags.csv": csv("package,tag", tags),
    }


def geonames(pick: random.Random) -> Files:
    countries = {code: {"iso": code, "name": f"Land {code}"} for code in ("AD", "NA", "DE", "TH", "FR")}
    cities = {
        str(3000 + n): {
            "geonameid": 3000 + n,
            "name": "Nan" if n == 7 else f"c{n}",
            "countrycode": pick.choice([*countries]),
        }
        for n in range(80)
    }
    return {"cities.json": json.dumps(cities), "countries.json": json.dumps(countries)}


def git_log(pick: random.Random) -> Files:
    people = [{"name": f"p{n}", "email": f"p{n}@x.org"} for n in range(6)]
    log = [
        {
            "commit": f"{n:040x}",
            "parents": [f"{n - 1:040x}", f"{n - 5:040x}"][: 2 if n % 7 == 6 else 1] if n else [],
            "author": {**pick.choice(people), "date": f"2026-01-{1 + n % 28:02}T12:00:00Z"},
            "files": [{"path": f"f{n % 9}", "added": n}],
        }
        for n in range(60)
    ]
    return {"log.json": json.dumps(log)}


def ratings(pick: random.Random) -> Files:
    """The three tables of MovieLens: a second table with the key of the first, lists of genres, times that no two rows share, and
    users that no table has."""
    genres = ["Action", "Comedy", "Drama", "Sci-Fi"]
    movies = range(1, 60)
    seconds = iter(range(964982703, 970000000, 7))
    return {
        "links.csv": csv("movieId,imdbId", [[n, f"0{114700 + n}"] for n in movies]),
        "movies.csv": csv(
            "movieId,title,genres", [[n, f"Film {n}", "|".join(pick.sample(genres, 1 + n % 3))] for n in movies]
        ),
        "ratings.csv": csv(
            "userId,movieId,rating,timestamp",
            [[1 + n % 30, pick.choice(movies), 0.5 + n % 5, next(seconds)] for n in range(300)],
        ),
    }


def northwind(pick: random.Random) -> Files:
    return {
        "customers.csv": csv("customer_id,name", [[f"C{n}", f"n{n}"] for n in range(30)]),
        "employees.csv": csv("employee_id,name,manager_id", [[n, f"e{n}", n // 3 or ""] for n in range(1, 20)]),
        "orders.csv": csv(
            "order_id,customer_id,employee_id",
            [[n, f"C{pick.randint(0, 29)}", pick.randint(1, 19)] for n in range(1, 90)],
        ),
    }


def music(pick: random.Random) -> Files:
    return {
        "artists.csv": csv("id,name", [[n, f"a{n}"] for n in range(1, 30)]),
        "albums.csv": csv("id,title,artist_id", [[n, f"t{n}", pick.randint(1, 29)] for n in range(1, 60)]),
        "tracks.csv": csv(
            "id,name,album_id,ms", [[n, f"k{n % 90}", pick.randint(1, 59), n * 7] for n in range(1, 150)]
        ),
    }


def social(pick: random.Random) -> Files:
    return {
        "people.csv": csv("name,age", [[f"p{n}", 20 + n % 50] for n in range(60)]),
        "follows.csv": csv("from,to", [[f"p{n % 60}", f"p{pick.randint(0, 59)}"] for n in range(200)]),
    }


def wiki(pick: random.Random) -> Files:
    titles = [f"Page {n}" for n in range(80)]
    return {
        "pages.csv": csv("title,words", [[title, n * 3] for n, title in enumerate(titles)]),
        "links.csv": csv(
            "source,target",
            [[pick.choice(titles), pick.choice([*titles, *[f"Red {n}" for n in range(9)]])] for _ in range(400)],
        ),
    }


def bikes(pick: random.Random) -> Files:
    stations = [f"S{n}" for n in range(25)]
    rows: list[list[object]] = [
        [n, pick.choice(stations), pick.choice([*stations] * 4 + ["depot"]), f"B{n % 30}"] for n in range(300)
    ]
    return {
        "stations.csv": csv("station,docks", [[name, n] for n, name in enumerate(stations)]),
        "bikes.csv": csv("bike,model", [[f"B{n}", f"m{n % 2}"] for n in range(30)]),
        "trips.csv": csv("trip_id,start_station,end_station,bike", rows),
    }


def courses(pick: random.Random) -> Files:
    return {
        "students.csv": csv("student_id,name", [[f"s{n}", f"n{n}"] for n in range(40)]),
        "courses.csv": csv("course_id,title", [[f"c{n}", f"t{n}"] for n in range(12)]),
        "enrollments.csv": csv("student_id,course_id,grade", [[f"s{n % 40}", f"c{n % 12}", n % 6] for n in range(120)]),
    }


def tickets(pick: random.Random) -> Files:
    return {
        "users.csv": csv("login,team", [[f"u{n}", f"t{n % 3}"] for n in range(20)]),
        "tickets.csv": csv(
            "number,title,reporter,assignee",
            [[n, f"x{n}", f"u{n % 20}", pick.choice([f"u{n % 20}", "N/A"])] for n in range(1, 100)],
        ),
    }


Truth = tuple[Callable[[random.Random], Files], set[str], tuple[float, float]]
"""What writes the files, the facts, and precision and recall of the guesses before."""
TRUTHS: dict[str, Truth] = {
    "flights": (flights, {
        "Airline.carrier", "Airport.faa", "Plane.tailnum", "Flight -carrier-> Airline", "Flight -tailnum-> Plane",
        "Flight -origin-> Airport", "Flight -dest-> Airport",
    }, (0.75, 0.43)),
    "debian": (debian, {"Package.package", "Package -depends_on-> Package", "Tag -package-> Package"}, (0.67, 0.67)),
    "geonames": (geonames, {"City.geonameid", "Country.iso", "City -countrycode-> Country"}, (0.0, 0.0)),
    "git_log": (git_log, {
        "Log.commit", "Author.email", "Log -author.email-> Author", "Log -#-> File", "Log -.-> Log",
    }, (1.0, 0.4)),
    "ratings": (ratings, {
        "Movie.movieId", "Link.movieId", "Link -movieId-> Movie", "Rating -movieId-> Movie",
    }, (0.6, 0.75)),
    "northwind": (northwind, {
        "Customer.customer_id", "Employee.employee_id", "Order.order_id", "Employee -manager_id-> Employee",
        "Order -customer_id-> Customer", "Order -employee_id-> Employee",
    }, (1.0, 1.0)),
    "music": (music, {
        "Artist.artist_id", "Album.album_id", "Track.track_id", "Album -artist_id-> Artist", "Track -album_id-> Album",
    }, (1.0, 1.0)),
    "social": (social, {"Person.name", "Person -to-> Person"}, (1.0, 1.0)),
    "wiki": (wiki, {"Page.title", "Page -target-> Page"}, (0.5, 0.5)),
    "bikes": (bikes, {
        "Station.station", "Bike.bike", "Trip.trip_id", "Trip -start_station-> Station", "Trip -end_station-> Station",
        "Trip -bike-> Bike",
    }, (1.0, 0.83)),
    "courses": (courses, {"Student.student_id", "Course.course_id", "Student -course_id-> Course"}, (1.0, 1.0)),
    "tickets": (tickets, {
        "User.login", "Ticket.number", "Ticket -reporter-> User", "Ticket -assignee-> User",
    }, (1.0, 1.0)),
}  # fmt: skip


def facts(inferred: og.types.InferredSchema) -> set[str]:
    catalog = compile_schema(inferred.schema)
    keys = {f"{name}.{','.join(node.key)}" for name, node in catalog.nodes.items() if node.key}
    columns = {source["type"]: source["columns"] for source in inferred.map["sources"]}
    edges = {f"{edge.source} -{columns[name]['to']}-> {edge.target}" for name, edge in catalog.edges.items()}
    return keys | edges


def scores(guessed: set[str], truth: set[str]) -> tuple[float, float]:
    right = len(guessed & truth)
    return round(right / len(guessed), 2) if guessed else 0.0, round(right / len(truth), 2)


def test_guesses_against_the_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{'data set':12} {'before':>12} {'after':>12}   (precision, recall)"]
    wrong = {}
    for name, (make, truth, before) in TRUTHS.items():
        folder = tmp_path / name
        folder.mkdir()
        for file, text in make(random.Random(name)).items():
            (folder / file).write_text(text)
        guessed = facts(og.infer_schema(folder, missing="skip"))
        after = scores(guessed, truth)
        lines.append(f"{name:12} {before[0]:>6.2f}{before[1]:>6.2f} {after[0]:>6.2f}{after[1]:>6.2f}")
        if guessed != truth:
            wrong[name] = (sorted(truth - guessed), sorted(guessed - truth))
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    assert wrong == {}


@pytest.mark.parametrize("name", ["flights", "debian", "geonames", "wiki"])
def test_one_command_from_files_with_dangling_references_to_a_graph(name: str, tmp_path: Path) -> None:
    """Nothing is lost: an edge for every row that has both ends, the others among the rejects, and every value still a property."""
    make = TRUTHS[name][0]
    (tmp_path / "data").mkdir()
    for file, text in make(random.Random(name)).items():
        (tmp_path / "data" / file).write_text(text)
    rejects = tmp_path / "rejects.jsonl"
    imported = og.import_data(tmp_path / "data", tmp_path / "g", missing="skip", rejects=rejects, engine="local")
    receipt, graph = imported.receipt, imported.graph
    assert receipt is not None
    assert graph is not None
    skipped = sum(receipt.skipped.values())
    assert receipt.rejected == skipped == (len(rejects.read_text().splitlines()) if skipped else 0)

    def count(pattern: str) -> int:
        query = f"query q() {{ match {{ {pattern} }} return {{ count({pattern[:2]}) as n }} }}"
        return int(graph.query(query).rows[0]["n"])

    match name:
        case "flights":
            gone = count('$f: Flight  $f.dest in ["BQN", "SJU"]')
            assert 0 < gone < 40
            assert (count("$f: Flight"), count("$f: Flight  $f flightDest $a")) == (400, 400 - gone)
            assert receipt.skipped["edge:FlightDest"] == gone
        case "debian":
            assert receipt.loaded["edge:Depend"] + skipped == 602
            assert skipped >= 2
        case "geonames":
            assert (graph.entity("City", "3007") or {})["name"] == "Nan"
            assert sorted(receipt.loaded.values()) == [5, 80, 80]
        case "wiki":
            assert receipt.loaded["edge:Link"] + skipped == 400


@pytest.mark.parametrize("name", ["flights", "debian", "wiki"])
def test_stubs_are_made_of_what_others_refer_to_in_one_command(name: str, tmp_path: Path) -> None:
    """What a stub cannot have is optional in the schema, and no edge is set aside."""
    (tmp_path / "data").mkdir()
    for file, text in TRUTHS[name][0](random.Random(name)).items():
        (tmp_path / "data" / file).write_text(text)
    imported = og.import_data(tmp_path / "data", tmp_path / "g", missing="stub", engine="local")
    assert imported.receipt is not None
    assert imported.receipt.rejected == 0
    assert sum(imported.receipt.stubs.values()) > 0
    assert imported.inferred.near_references == ()
    assert "; optional: a stub has its key alone" in imported.inferred.schema
    refused = og.infer_schema(tmp_path / "data")
    assert refused.near_references
    assert "optional: a stub" not in refused.schema

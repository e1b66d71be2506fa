"""Five made-up data sets in the shapes in which data is found, for the page "Your own data". The same every time.

shipping/       CSV as people keep it: odd headers, several delimiters, encodings and formats of dates, cells like "N/A"
movies/         an export in the layout of Neo4j's importer
shop.sqlite     a shop with foreign keys, a join table, a tree of categories
issues.json     issues as an API gives them: one array of nested objects
events/         Parquet by day, with structs and lists, and the users that the events name
"""

from __future__ import annotations

import csv
import json
import random
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PORTS = [
    ("NLRTM", "Rotterdam", "Netherlands", 51.948, 4.142, 24.0), ("DEHAM", "Hamburg", "Germany", 53.546, 9.966, 15.1),
    ("BEANR", "Antwerpen", "Belgium", 51.27, 4.336, 16.0), ("FRLEH", "Le Havre", "France", 49.485, 0.107, 15.5),
    ("ESALG", "Algeciras", "Spain", 36.14, -5.438, 18.5), ("ESVLC", "València", "Spain", 39.45, -0.317, 16.0),
    ("ITGOA", "Genova", "Italy", 44.403, 8.917, 14.8), ("GRPIR", "Piraeus", "Greece", 37.942, 23.63, 18.0),
    ("EGPSD", "Port Said", "Egypt", 31.26, 32.31, 16.5), ("AEJEA", "Jebel Ali", "United Arab Emirates", 25.01, 55.06, 17.0),
    ("INNSA", "Nhava Sheva", "India", 18.95, 72.95, 15.0), ("LKCMB", "Colombo", "Sri Lanka", 6.95, 79.84, 18.0),
    ("SGSIN", "Singapore", "Singapore", 1.264, 103.82, 18.0), ("MYPKG", "Port Klang", "Malaysia", 3.0, 101.39, 17.5),
    ("VNSGN", "Hồ Chí Minh", "Vietnam", 10.77, 106.72, 11.5), ("HKHKG", "Hong Kong", "China", 22.33, 114.12, 17.0),
    ("CNSHA", "Shanghai", "China", 31.23, 121.49, 17.5), ("CNNGB", "Ningbo", "China", 29.93, 121.85, 22.5),
    ("KRPUS", "Busan", "South Korea", 35.1, 129.04, 17.0), ("JPTYO", "Tokyo", "Japan", 35.61, 139.79, 15.0),
    ("USLAX", "Los Angeles", "United States", 33.74, -118.26, 16.0), ("USNYC", "New York", "United States", 40.67, -74.04, 15.2),
    ("BRSSZ", "Santos", "Brazil", -23.96, -46.3, 13.5), ("ZADUR", "Durban", "South Africa", -29.87, 31.02, 12.8),
]  # fmt: skip
FIRST = [
    "Ada", "Bo", "Chloë", "Dmitri", "Elif", "Farid", "Grete", "Hana", "Iker", "José",
    "Kofi", "Lena", "Mei", "Nadia", "Olu", "Priya", "Quinn", "Rosa", "Søren", "Tariq",
]  # fmt: skip
LAST = [
    "Abe", "Brandt", "Costa", "Duval", "Eriksen", "Fischer", "García", "Hughes",
    "Ito", "Jansen", "Kaya", "Lindqvist", "Müller", "Novak", "Okafor", "Petrov",
]  # fmt: skip


def write_csv(path: Path, rows: Iterable[Sequence[object]], *, delimiter: str = ",", encoding: str = "utf-8") -> None:
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)


def name(rng: random.Random) -> str:
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


def make_shipping(folder: Path, rng: random.Random) -> None:
    folder.mkdir(parents=True)
    head = ["UN/LOCODE", "Port Name", "Country", "Latitude", "Longitude", "Max. Draft (m)", "Container Terminal?"]
    ports = [[*port, "no" if port[0] in ("JPTYO", "ZADUR") else "yes"] for port in PORTS]
    write_csv(folder / "ports.csv", [head, *ports], encoding="utf-8-sig")
    ships = [f"{9_100_000 + 137 * number}" for number in range(48)]
    rows = [
        [imo, f"MS {rng.choice(LAST)} {rng.choice(('Star', 'Étoile', 'Wave', 'Spirit'))}", rng.choice(("PA", "LR", "MH", "NL", "SG")),
         f"{rng.randrange(900, 24_000):,}", rng.randrange(1998, 2025), f"{rng.randrange(1, 900):04}"]
        for imo in ships
    ]  # fmt: skip
    header = ["IMO No.", "Vessel Name", "Flag", "TEU", "Built", "Operator Code"]
    write_csv(folder / "vessels.csv", [header, *rows], delimiter=";", encoding="cp1252")
    number = 0
    for year in (2025, 2026):
        calls: list[Sequence[object]] = [
            ["Call ID", "Vessel", "Port", "Arrived", "Departed", "Moves", "Pilot", "Remarks"]
        ]
        for _ in range(260):
            number += 1
            arrived = datetime(year, 1, 1) + timedelta(minutes=rng.randrange(300 * 24 * 60))
            left = arrived + timedelta(minutes=rng.randrange(300, 4000))
            departed = "N/A" if rng.random() < 0.05 else f"{left:%d.%m.%Y %H:%M}"
            moves = "-" if rng.random() < 0.04 else f"{rng.randrange(40, 4200):,}"
            remark = rng.choice(["", "", "", "late, no berth", 'master said "engine"', "crew change"])
            calls.append([f"C{number:05}", rng.choice(ships), rng.choice(PORTS)[0], f"{arrived:%d.%m.%Y %H:%M}", departed, moves,
                          rng.choice("YN"), remark])  # fmt: skip
        write_csv(folder / f"port_calls_{year}.csv", calls)
    boxes: list[Sequence[object]] = [
        ["Container", "Vessel", "Origin", "Destination", "Gross (kg)", "Customs", "Due", "Kind", ""]
    ]
    for box in range(600):
        start, end = rng.sample(PORTS, 2)
        due = date(2026, 1, 1) + timedelta(days=rng.randrange(300))
        boxes.append([f"MSKU{box * 17 + 1_000_000}", rng.choice(ships), start[0], end[0], f"{rng.randrange(2_100, 30_400):,}",
                      f"{rng.randrange(100_000):08}", f"{due:%d/%m/%Y}", rng.choice(("dry", "dry", "reefer", "tank")), ""])  # fmt: skip
    write_csv(folder / "Containers.csv", boxes, delimiter="\t")


def make_movies(folder: Path, rng: random.Random) -> None:
    folder.mkdir(parents=True)
    people = [f"nm{number:07}" for number in range(1, 121)]
    rows: list[Sequence[object]] = [
        ["personId:ID(Person)", "name", "born:int", "aliases:string[]", "zip:string", ":LABEL"]
    ]
    for key in people:
        label = rng.choice(["Person;Actor", "Person;Actor", "Person;Director", "Person"])
        aliases = ";".join(rng.sample(FIRST, rng.randrange(3)))
        rows.append(
            [
                key,
                name(rng),
                rng.choice(["", rng.randrange(1930, 2004)]),
                aliases,
                f"{rng.randrange(1000, 99_000)}",
                label,
            ]
        )
    write_csv(folder / "people.csv", rows)
    movies = [f"tt{number:07}" for number in range(1, 81)]
    rows = [["movieId:ID(Movie)", "title", "released:date", "rating:float", "oscar:boolean", ":LABEL"]]
    for key in movies:
        title = f"The {rng.choice(('Last', 'Silent', 'Second', 'Blue', 'Lost'))} {rng.choice(('Harbour', 'Winter', 'Train', 'Witness', 'Map'))}"
        released = date(1970, 1, 1) + timedelta(days=rng.randrange(20_000))
        rows.append([key, title, released, rng.randrange(10, 100) / 10, rng.choice(["true", "false"]), "Movie"])
    write_csv(folder / "movies.csv", rows)
    edges: list[Sequence[object]] = [[":START_ID(Person)", "role", "year:int", ":END_ID(Movie)", ":TYPE"]]
    for key in movies:
        cast = rng.sample(people, 6)
        edges.append([cast[0], "", "", key, "DIRECTED"])
        edges += [[actor, rng.choice(FIRST), rng.randrange(1970, 2026), key, "ACTED_IN"] for actor in cast[1:]]
    write_csv(folder / "roles.csv", edges)


SHOP = """
create table categories (id integer primary key, name text not null, parent_id integer references categories(id));
create table suppliers (code text primary key, name text not null, country text);
create table products (sku text primary key, name text not null, price decimal(10, 2), in_stock boolean not null,
    category_id integer references categories(id), supplier text references suppliers(code));
create table customers (id integer primary key, email text unique not null, name text, zip text, joined date);
create table orders (id integer primary key, customer_id integer not null references customers(id), placed_at datetime, status text);
create table order_items (order_id integer references orders(id), line integer, sku text references products(sku),
    quantity integer not null, price decimal(10, 2), primary key (order_id, line));
create table wishes (customer_id integer references customers(id), sku text references products(sku), primary key (customer_id, sku));
"""


def make_shop(path: Path, rng: random.Random) -> None:
    categories: list[tuple[int, str, int | None]] = [(1, "Kitchen", None), (2, "Office", None), (3, "Garden", None)]
    for number in range(4, 13):
        categories.append(
            (number, f"{rng.choice(('Small', 'Large', 'Wooden', 'Steel'))} things {number}", rng.randrange(1, number))
        )
    suppliers = [
        (f"{number:03}", f"{last} & Sons", rng.choice(("NL", "DE", "PL"))) for number, last in enumerate(LAST, 1)
    ]
    products = [
        (f"P-{number:04}", f"{rng.choice(('Pan', 'Desk', 'Rake', 'Lamp', 'Bowl'))} {number}", rng.randrange(200, 20_000) / 100,
         rng.randrange(2), rng.randrange(1, 13), rng.choice(suppliers)[0])
        for number in range(1, 61)
    ]  # fmt: skip
    customers = []
    for number in range(1, 91):
        who, joined = name(rng), date(2023, 1, 1) + timedelta(days=rng.randrange(1000))
        zip_code = f"{rng.randrange(1, 99_999):05}"
        customers.append((number, f"{who.split()[0].lower()}{number}@example.org", who, zip_code, str(joined)))
    orders, items = [], []
    for number in range(1, 241):
        placed = datetime(2026, 1, 1) + timedelta(minutes=rng.randrange(400_000))
        status = rng.choice(("paid", "paid", "shipped", "returned"))
        orders.append((number, rng.randrange(1, 91), str(placed), status))
        for line, product in enumerate(rng.sample(products, rng.randrange(1, 5)), 1):
            items.append((number, line, product[0], rng.randrange(1, 6), product[2]))
    wishes = sorted({(rng.randrange(1, 91), rng.choice(products)[0]) for _ in range(120)})
    with closing(sqlite3.connect(path)) as shop:
        shop.executescript(SHOP)
        tables = (categories, suppliers, products, customers, orders, items, wishes)
        names = ("categories", "suppliers", "products", "customers", "orders", "order_items", "wishes")
        for table, rows in zip(names, tables, strict=True):
            shop.executemany(f"insert into {table} values ({', '.join('?' * len(rows[0]))})", rows)  # type: ignore[arg-type, index]
        shop.commit()


def make_issues(path: Path, rng: random.Random) -> None:
    users = [
        {"login": f"{first.lower()}", "id": 1000 + place, "site_admin": place < 2} for place, first in enumerate(FIRST)
    ]
    labels = [{"id": place, "name": label, "color": f"{rng.randrange(2**24):06x}"}
              for place, label in enumerate(("bug", "docs", "easy", "performance", "question", "wontfix"), 1)]  # fmt: skip
    milestones = [{"number": place, "title": f"v1.{place}", "due_on": f"2026-0{place + 2}-01"} for place in range(1, 5)]
    issues = []
    for number in range(1, 161):
        opened = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=rng.randrange(300_000))
        closed = opened + timedelta(hours=rng.randrange(1, 900)) if rng.random() < 0.6 else None
        comments = [
            {"id": number * 100 + place, "user": rng.choice(users), "body": rng.choice(("Same here.", "Fixed?", "Merci ! 🎉")),
             "created_at": f"{opened + timedelta(hours=place + 1):%Y-%m-%dT%H:%M:%SZ}"}
            for place in range(rng.randrange(5))
        ]  # fmt: skip
        issues.append(
            {
                "number": number,
                "title": f"{rng.choice(('Crash', 'Typo', 'Slow query', 'Wrong total'))} in {rng.choice(('merge', 'load', 'export', 'docs'))}",
                "state": "open" if closed is None else "closed",
                "user": rng.choice(users),
                "labels": rng.sample(labels, rng.randrange(3)),
                "assignees": rng.sample(users, rng.randrange(3)),
                "milestone": rng.choice([None, *milestones]),
                "comments": comments,
                "reactions": {"+1": rng.randrange(20), "heart": rng.randrange(5)},
                "topics": rng.sample(["storage", "language", "server", "spark"], rng.randrange(3)),
                "created_at": f"{opened:%Y-%m-%dT%H:%M:%SZ}",
                "closed_at": None if closed is None else f"{closed:%Y-%m-%dT%H:%M:%SZ}",
            }
        )
    path.write_text(json.dumps(issues, ensure_ascii=False, indent=1), encoding="utf-8")


def make_events(folder: Path, rng: random.Random) -> None:
    folder.mkdir(parents=True)
    users = [f"u{number:04}" for number in range(1, 151)]
    columns = {
        "user_id": users,
        "name": [name(rng) for _ in users],
        "country": [rng.choice(("NL", "DE", "FR", "IN", "BR")) for _ in users],
        "signed_up": [date(2025, 1, 1) + timedelta(days=rng.randrange(400)) for _ in users],
    }
    pq.write_table(pa.table(columns), folder / "users.parquet")
    pages = [f"/{section}/{number}" for section in ("blog", "shop", "help") for number in range(1, 13)]
    pq.write_table(
        pa.table({"path": pages, "title": [page.strip("/").replace("/", " ") for page in pages]}),
        folder / "pages.parquet",
    )
    number = 0
    for day in range(1, 5):
        rows = []
        for _ in range(700):
            number += 1
            at = datetime(2026, 3, day, tzinfo=UTC) + timedelta(milliseconds=rng.randrange(86_400_000))
            rows.append(
                {
                    "event_id": f"e{number:06}",
                    "at": at,
                    "kind": rng.choice(("view", "view", "view", "click", "buy")),
                    "user_id": None if rng.random() < 0.08 else rng.choice(users),
                    "page": rng.choice(pages),
                    "device": {
                        "os": rng.choice(("ios", "android", "linux")),
                        "screen": {"width": rng.choice((390, 1280, 1920))},
                    },
                    "tags": rng.sample(["new", "ad", "mail"], rng.randrange(3)),
                    "amount": round(rng.random() * 90, 2) if rng.random() < 0.2 else None,
                }
            )
        part = folder / "events" / f"day=2026-03-0{day}"
        part.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), part / "part-0000.parquet")


def write_example_data(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    make_shipping(folder / "shipping", random.Random("shipping"))
    make_movies(folder / "movies", random.Random("movies"))
    make_shop(folder / "shop.sqlite", random.Random("shop"))
    make_issues(folder / "issues.json", random.Random("issues"))
    make_events(folder / "events", random.Random("events"))

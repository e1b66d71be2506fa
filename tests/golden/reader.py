"""A second reader of the format, written from docs/format.md: JSON, hashes and Lance, nothing of OmniGraph.

    python reader.py <graph>      what every commit holds, as one JSON object

Checks everything on the way that the page says can be checked.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import itertools
import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import lance

Json = dict[str, Any]
LAST_KEY = 10**12 - 1
UNDERSTOOD = {
    "format-1",
    "write-keys",
    "evolved-schema",
    "hard-drops",
    "fences",
    "inline-rows",
    "provisional-plans",
    "nullable-fills",
    "edge-keys",
    "edge-families",
}


TEXT = {"scalar": "String"}


def with_columns(changes: list[Json]) -> list[Json]:
    """Changes with everything that was left out."""
    whole: list[Json] = []
    columns: list[str] = []
    for change in changes:
        columns = change.get("columns", columns)
        empty: Json = {"rows": [], "removed": [], "masked": []}
        whole.append(empty | change | {"columns": columns})
    return whole


def named(change: Json) -> list[Json]:
    return [dict(zip(change["columns"], row, strict=True)) for row in change["rows"]]


def from_json(value: Any, type: Json) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [from_json(item, type) for item in value]
    match type["scalar"]:
        case "Date":
            return dt.date(1970, 1, 1) + dt.timedelta(days=value)
        case "DateTime":
            return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(value))
        case "I64" | "U64":
            return int(value)
        case "Blob":
            return base64.b64decode(value)
    return value


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def ids_of(field: Any) -> list[int]:
    return [field.id(), *(id for child in field.children() for id in ids_of(child))]


class Reader:
    def __init__(self, graph: Path) -> None:
        self.graph = graph

    # ------------------------------------------------------------ objects

    def object(self, key: str) -> Json:
        data = (self.graph / key).read_bytes()
        body, _, rest = data.rpartition(b',"checksum"')
        value: Json = json.loads(data)
        assert rest == f':"{value["checksum"]}"}}'.encode(), key
        assert digest(body)[:16] == value["checksum"], f"{key} is damaged"
        assert next(iter(value)) == "features", key
        assert set(value["features"]) <= UNDERSTOOD, f"{key} needs {value['features']}"
        return value

    def schema(self, name: str) -> Json:
        data = (self.graph / "schemas" / f"{name}.json").read_bytes()
        assert digest(data) == name
        value: Json = json.loads(data)
        assert set(value["features"]) <= UNDERSTOOD
        return value

    # ------------------------------------------------------------ history

    def branches(self) -> list[str]:
        return sorted(unquote(folder.name) for folder in (self.graph / "branches").iterdir())

    def entries(self, branch: str) -> Iterator[Json]:
        """Newest first."""
        folder = f"branches/{quote(branch, safe='')}"
        for file in sorted((self.graph / folder).iterdir()):
            entry = self.object(f"{folder}/{file.name}")
            assert entry["position"] == LAST_KEY - int(file.stem)
            assert entry["incarnation"].rpartition("@")[0] == branch
            yield entry

    def floor(self, branch: str) -> int:
        found = sorted((self.graph / "retention" / quote(branch, safe="")).glob("*.json"))
        floors = [self.object(str(file.relative_to(self.graph)))["floor"] for file in found]
        assert floors == [LAST_KEY - int(file.stem) for file in found]
        return max(floors, default=0)

    def records(self, values: list[Json], before: Json | None = None) -> list[Json]:
        """Records with everything that was left out."""
        whole = []
        for value in values:
            record = dict(value)
            if before is not None:
                record.setdefault("incarnation", before["incarnation"])
                record.setdefault("seq", before["seq"] + 1)
                record.setdefault("position", before["position"] + 1)
                record.setdefault("parent", {name: before[name] for name in ("id", "incarnation", "seq", "position")})
            record.setdefault("kind", "mutation")
            whole.append(record)
            before = record
        return whole

    def snapshots(self, entry: Json) -> list[tuple[Json, str, Json]]:
        """The record, schema and table states after each commit of an entry."""
        base = self.records([entry["base"]])[0] if "base" in entry else self.records(entry["tail"])[-1]
        schema, tables = entry["schema"], entry["tables"]
        commits = self.records([step["commit"] for step in entry["steps"]], base)
        found = []
        for commit, step in zip(commits, entry["steps"], strict=True):
            schema = step.get("schema", schema)
            moved = {key: self.moved(tables.get(key), state) for key, state in step["tables"].items()}
            tables = {key: state for key, state in {**tables, **moved}.items() if state is not None}
            found.append((commit, schema, tables))
        return found

    def moved(self, before: Json | None, state: Json | None) -> Json | None:
        if state is None or "change" not in state:
            return state
        assert before is not None
        changes = [self.without(change, state["change"]) for change in with_columns(before.get("inline", []))]
        left = [change for change in changes if change["rows"] or change["masked"]]
        return {**before, **state, "inline": [*left, *with_columns([state["change"]])]}

    def without(self, change: Json, newer: Json) -> Json:
        """What is left of a change after another one."""
        (after,) = with_columns([newer])
        gone = {*(row["id"] for row in named(after)), *after["removed"]}
        rows = [values for values, row in zip(change["rows"], named(change), strict=True) if row["id"] not in gone]
        return {**change, "rows": rows, "removed": []}

    def log(self, entry: Json) -> list[Json]:
        """Every commit along first parents, oldest first."""
        found: list[Json] = []
        for segment in entry["segments"]:
            records = self.records(self.object(f"history/{segment['id']}.json")["records"])
            seqs, ids, times = ([record[name] for record in records] for name in ("seq", "id", "at"))
            assert segment["seqs"] == [seqs[0], seqs[-1]]
            assert segment["ids"] == [min(ids), max(ids)]
            assert segment["times"] == [times[0], times[-1]]
            found += records
        found += self.records(entry["tail"])
        found += [commit for commit, _, _ in self.snapshots(entry)]
        assert [record["seq"] for record in found] == list(range(len(found)))
        for before, after in itertools.pairwise(found):
            assert after["parent"]["id"] == before["id"]
            assert after["at"] > before["at"]
        return found

    def reached(self, entry: Json) -> dict[str, int]:
        reached: dict[str, int] = dict(entry["ancestry"]["reached"])
        if "stored" in entry["ancestry"]:
            for name, seq in self.object(entry["ancestry"]["stored"])["reached"].items():
                reached[name] = max(seq, reached.get(name, -1))
        return reached

    # ------------------------------------------------------------ rows

    def rows(self, state: Json, type: Json) -> list[Json]:
        folder = self.graph / state["path"]
        if "digest" in state:
            manifest = folder / "_versions" / f"d{state['version']}.manifest"
            assert digest(manifest.read_bytes())[:16] == state["digest"]
        table = lance.dataset(str(folder), version=int(state["version"]))
        for fragment in table.get_fragments():
            self.check_fragment(folder, fragment.metadata.to_json())
        for index in table.describe_indices():
            for segment in index.segments:
                self.check_index(folder / "_indices" / str(segment.uuid))
        changes = with_columns(state.get("inline", []))
        masked = {
            fragment << 32 | offset
            for change in changes
            for fragment, offsets in change["masked"]
            for offset in offsets
        }
        stored: list[Json] = table.scanner(with_row_address=True).to_table().to_pylist()
        assert masked <= {row["_rowaddr"] for row in stored}
        types = {"id": TEXT, "src": TEXT, "dst": TEXT}
        for each in type["properties"]:
            types |= {column["name"]: column["type"] for column in each.get("columns", [each])}
        # A row is read without the columns that its fragment lacks.
        fields = {id: field.name() for field in table.lance_schema.fields() for id in ids_of(field)}
        held = {
            fragment.fragment_id: {fields[id] for file in fragment.metadata.files for id in file.fields if id in fields}
            for fragment in table.get_fragments()
        }
        rows = [
            {name: value for name, value in row.items() if name in held[row["_rowaddr"] >> 32]}
            for row in stored
            if row["_rowaddr"] not in masked
        ]
        for row in (row for change in changes for row in named(change)):
            rows.append({name: from_json(value, types[name]) for name, value in row.items() if name in types})
        assert len(rows) == state["rows"]
        keys = ("id", "src", "dst") if "source" in type else ("id",)
        entities = [
            {key: row[key] for key in keys} | {each["name"]: self.value(row, each) for each in type["properties"]}
            for row in rows
        ]
        for members in (each["fields"] for each in type.get("constraints", ()) if each["kind"] == "key"):
            for entity in entities:
                texts = [str(entity[member]) for member in members]
                id = texts[0] if len(texts) == 1 else json.dumps(texts, separators=(",", ":"), ensure_ascii=False)
                assert entity["id"] == id, f"{entity['id']} does not follow from its key"
        return entities

    def value(self, row: Json, property: Json) -> Any:
        columns = [column["name"] for column in property.get("columns", [property])]
        held = [row[name] for name in columns if name in row]
        value = next((value for value in held if value is not None), None if held else property.get("fill"))
        return [value] if "list" in property["type"] and value is not None and not isinstance(value, list) else value

    def check_fragment(self, folder: Path, fragment: Json) -> None:
        for file in fragment["files"]:
            name = file["path"].removesuffix(".lance")
            assert digest((folder / "data" / file["path"]).read_bytes())[:16] == name.rpartition("-")[2]
        if deleted := fragment["deletion_file"]:
            suffix = {"array": "arrow", "bitmap": "bin"}[deleted["file_type"]]
            name = f"_deletions/{fragment['id']}-{deleted['read_version']}-{deleted['id']}.{suffix}"
            assert deleted["read_version"] == 2**62 + int(digest((folder / name).read_bytes())[:15], 16)

    def check_index(self, folder: Path) -> None:
        files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
        lines = "".join(f"{digest((folder / file).read_bytes())}  {file}\n" for file in files)
        named = uuid.UUID(folder.name)
        assert named.version == 8
        assert named.hex[:12] + named.hex[13:16] == digest(lines.encode())[:15]

    # ------------------------------------------------------------ all of it

    def everything(self) -> Json:
        identity = self.object("graph.json")
        states, branches, first = {}, {}, ""
        for branch in self.branches():
            newest = None
            kept = set()
            for entry in self.entries(branch):
                newest = newest or entry
                kept.add(entry["position"])
                for commit, schema, tables in self.snapshots(entry):
                    types = self.schema(schema)
                    named = {f"node:{each['name']}": each for each in types["nodes"]}
                    named |= {f"edge:{each['name']}": each for each in types["edges"]}
                    assert tables.keys() <= named.keys()
                    assert self.reached(entry)[commit["incarnation"]] >= commit["seq"]
                    states[commit["id"]] = self.state(tables, named)
                    first = first or (commit["id"] if commit["parent"] is None else "")
            assert newest is not None
            assert kept >= set(range(self.floor(branch), newest["position"] + 1)), f"{branch} has a gap"
            if newest["op"] != "delete":
                branches[branch] = [record["id"] for record in reversed(self.log(newest))]
        assert self.floor("main") or first == identity["first_commit"]
        tags = {unquote(file.stem): self.object(f"tags/{file.name}") for file in (self.graph / "tags").iterdir()}
        return {
            "branches": branches,
            "tags": {name: tag["commit"]["id"] for name, tag in tags.items()},
            "prepared": [
                self.object(f"recovery/{file.name}") and file.stem for file in (self.graph / "recovery").iterdir()
            ],
            "states": states,
        }

    def state(self, tables: Json, types: Json) -> Json:
        found = {
            key: sorted(self.rows(state, types[key]), key=lambda row: str(row["id"])) for key, state in tables.items()
        }
        return {key: rows for key, rows in found.items() if rows}


if __name__ == "__main__":
    json.dump(Reader(Path(sys.argv[1])).everything(), sys.stdout, default=str)

"""The cluster file and the files that it names, read and checked without access to storage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from omnigraph.cluster.reading import ConfigReader
from omnigraph.errors import ConfigurationError, LanguageError, OmnigraphError, Problem
from omnigraph.graph.stored_queries import StoredQuery, compile_stored
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.policy import policy_of
from omnigraph.yaml_text import Diagnostics, Node, read_yaml

FILE_NAME = "cluster.yaml"
CLUSTER_SCOPE = "cluster"
"""The `applies_to` of a policy for the server."""


@dataclass(frozen=True)
class GraphConfig:
    id: str
    uri: str
    is_elsewhere: bool
    """Whether the file gives its address: such a graph must exist, and its files are never removed."""
    schema_file: str
    schema_text: str
    queries: Mapping[str, StoredQuery]
    query_files: Mapping[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Other settings of the graph in the file."""


@dataclass(frozen=True)
class PolicyConfig:
    name: str
    files: Mapping[str, str]
    applies_to: tuple[str, ...]


@dataclass(frozen=True)
class ClusterConfig:
    """The desired state of a cluster."""

    folder: str
    name: str
    root: str
    has_lock: bool
    graphs: Mapping[str, GraphConfig]
    policies: Mapping[str, PolicyConfig]
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    server: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def resources(self) -> dict[str, dict[str, Any]]:
        """All resources by address, each with its digest and what the ledger records of it."""
        resources: dict[str, dict[str, Any]] = {}
        for graph in self.graphs.values():
            of_graph = {"uri": graph.uri, "is_elsewhere": graph.is_elsewhere, "settings": dict(graph.settings)}
            resources[f"graph.{graph.id}"] = {"digest": digest_of(of_graph), **of_graph}
            resources[f"schema.{graph.id}"] = {"digest": digest(graph.schema_text), "file": graph.schema_file}
            for name, query in graph.queries.items():
                resources[f"query.{graph.id}.{name}"] = {"digest": digest(query.text), "file": query.file}
        for policy in self.policies.values():
            files = {file: digest(text) for file, text in policy.files.items()}
            bound = {"files": files, "applies_to": list(policy.applies_to)}
            resources[f"policy.{policy.name}"] = {"digest": digest_of(bound), **bound}
        for name, provider in self.providers.items():
            resources[f"provider.embedding.{name}"] = {"digest": digest_of(provider), "settings": dict(provider)}
        return resources

    @cached_property
    def payloads(self) -> dict[str, str]:
        """The texts that the catalogue keeps, by digest."""
        texts = [graph.schema_text for graph in self.graphs.values()]
        texts += [text for graph in self.graphs.values() for text in graph.query_files.values()]
        texts += [text for policy in self.policies.values() for text in policy.files.values()]
        return {digest(text): text for text in texts}

    @cached_property
    def digest(self) -> str:
        """The digest of the whole configuration."""
        resources = {address: resource["digest"] for address, resource in self.resources.items()}
        return digest_of({"name": self.name, "server": dict(self.server), "resources": resources})


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def digest_of(value: object) -> str:
    return digest(json.dumps(value, sort_keys=True, ensure_ascii=False))


def read_config(folder: str | Path) -> ClusterConfig:
    """The cluster of a folder. ConfigurationError, with the code and the position of every problem, if something is wrong."""
    base = Path(folder)
    diagnostics = Diagnostics(str(base / FILE_NAME))
    declared = ConfigReader(diagnostics, base).read(_document(base, diagnostics))
    diagnostics.raise_any()
    texts = _Texts(diagnostics, base)
    graphs = {
        id: GraphConfig(
            id,
            graph["uri"] or f"{declared['root'].rstrip('/')}/graphs/{id}.omni",
            graph["uri"] is not None,
            graph["schema"],
            *texts.of_graph(graph),
            settings=graph["settings"],
        )
        for id, graph in declared["graphs"].items()
    }
    for address, ids in _by_address(graphs).items():
        if len(ids) > 1:
            diagnostics.add("duplicate_graph_address", f"graphs {', '.join(ids)} would all be at {address}")
    policies = {
        name: PolicyConfig(name, texts.of_policy(policy), policy["applies_to"])
        for name, policy in declared["policies"].items()
    }
    diagnostics.raise_any()
    return ClusterConfig(
        str(base),
        declared["name"],
        declared["root"],
        declared["lock"],
        graphs,
        policies,
        declared["providers"],
        declared["server"],
    )


def read_root(folder: str | Path) -> str:
    """Where the cluster of a folder has its storage. The rest of the folder is not read: it may be half edited."""
    base = Path(folder)
    diagnostics = Diagnostics(str(base / FILE_NAME))
    root = ConfigReader(diagnostics, base).root(_document(base, diagnostics).keys().get("storage"))
    diagnostics.raise_any()
    return root


def _document(base: Path, diagnostics: Diagnostics) -> Node:
    if not base.is_dir():
        diagnostics.add("config_dir_not_found", f"there is no folder {base}")
        diagnostics.raise_any()
    root = read_yaml(
        base / FILE_NAME,
        diagnostics,
        missing="cluster_config_read_error",
        invalid="invalid_cluster_yaml",
        duplicate="duplicate_yaml_key",
    )
    diagnostics.raise_any()
    assert root is not None
    return root


def _by_address(graphs: Mapping[str, GraphConfig]) -> dict[str, list[str]]:
    addresses: dict[str, list[str]] = {}
    for graph in graphs.values():
        addresses.setdefault(graph.uri.rstrip("/"), []).append(graph.id)
    return addresses


class _Texts:
    """Reads the files that a cluster file names, and checks what they say."""

    def __init__(self, diagnostics: Diagnostics, base: Path) -> None:
        self.diagnostics = diagnostics
        self.base = base

    def of_graph(self, graph: Mapping[str, Any]) -> tuple[str, dict[str, StoredQuery], dict[str, str]]:
        schema = self._text(graph["schema"], "schema_file_missing")
        sources: dict[str, str] = {}
        for file in self._query_files(graph["queries"]):
            text = self._text(file, "query_file_missing")
            if text is not None:
                sources[file] = text
        if schema is None:
            return "", {}, sources
        try:
            catalog = compile_schema(schema, graph["schema"])
        except LanguageError as error:
            self._refuse("schema_parse_error", error)
            return schema, {}, sources
        try:
            queries = compile_stored(sources, catalog)
        except LanguageError as error:
            self._refuse("query_parse_error", error)
            return schema, {}, sources
        except OmnigraphError as error:
            self.diagnostics.add("duplicate_query_name", error.message)
            return schema, {}, sources
        for name, file in graph["named_queries"].items():
            if name not in queries or queries[name].file != file:
                self.diagnostics.add("query_name_mismatch", f"'{file}' has no query '{name}'")
        return schema, queries, sources

    def of_policy(self, policy: Mapping[str, Any]) -> dict[str, str]:
        text = self._text(policy["file"], "policy_file_missing")
        if text is None:
            return {}
        files = {policy["file"]: text}
        try:
            policy_of(files, None if policy["applies_to"] == (CLUSTER_SCOPE,) else "graph")
        except ConfigurationError as error:
            self.diagnostics.problems.extend(error.problems)
        return files

    def _query_files(self, declared: str | tuple[str, ...]) -> list[str]:
        """The query files; a folder stands for the `.gq` files below it."""
        if not isinstance(declared, str):
            return list(declared)
        folder = self.base / declared
        if not folder.is_dir():
            self.diagnostics.add("query_file_missing", f"there is no folder '{declared}'")
            return []
        return sorted(file.relative_to(self.base).as_posix() for file in folder.rglob("*.gq"))

    def _text(self, file: str, missing: str) -> str | None:
        try:
            return (self.base / file).read_bytes().decode()
        except OSError as error:
            self.diagnostics.add(missing, f"cannot read '{file}': {error.strerror}")
        except ValueError:
            self.diagnostics.add(missing, f"'{file}' is not UTF-8")
        return None

    def _refuse(self, code: str, error: LanguageError) -> None:
        problem = Problem(code, f"[{error.rule}] {error.message}", error.file, error.line, error.column)
        self.diagnostics.problems.append(problem)

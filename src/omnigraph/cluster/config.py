"""The cluster file and the files that it names, read and checked without access to storage."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from omnigraph._internal.yaml_text import Diagnostics, Node, read_yaml, unknown_keys
from omnigraph.errors import ConfigurationError, LanguageError, OmnigraphError, Problem
from omnigraph.graph.stored_queries import StoredQuery, compile_stored
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.policy.bundle import policy_of

# Reads the members of a cluster file; everything unknown is refused with its code and position.

ID = re.compile(r"[a-zA-Z0-9-]{1,64}")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
RESERVED_IDS = frozenset({"policies", "cluster"})
RESERVED = frozenset({"pipelines", "embeddings", "ui", "aliases", "bindings", "env_file"})
STREAMING = frozenset({"streams", "streaming", "sinks"})
_SECRET = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_KINDS = ("openai-compatible", "openai", "gemini", "wordllama", "mock")
_LIMITS = {"body": "body_bytes", "load_body": "load_body_bytes", "query_seconds": "query_seconds"}
_SCHEMES = ("s3://", "gs://", "az://", "memory://", "file://")


class ConfigReader:
    """Reads a cluster file into plain values; problems are collected, and reading continues."""

    def __init__(self, diagnostics: Diagnostics, base: Path) -> None:
        self.diagnostics = diagnostics
        self.base = base

    def read(self, root: Node) -> dict[str, Any]:
        if not isinstance(root.value, dict):
            self.diagnostics.add("invalid_cluster_yaml", f"a cluster file is a mapping, not {root.kind()}", root)
            return {}
        known = ("version", "metadata", "storage", "state", "providers", "graphs", "policies", "server")
        self.known(root, known, "a cluster file")
        parts = root.keys()
        version = parts.get("version")
        if version is None or version.value != 1 or isinstance(version.value, bool):
            self.diagnostics.add("unsupported_cluster_config_version", "'version' must be 1", version or root)
        providers = self.providers(parts.get("providers"))
        graphs = self.graphs(parts.get("graphs"), providers)
        return {
            "name": self.name(parts.get("metadata")),
            "root": self.root(parts.get("storage")),
            "lock": self.lock(parts.get("state")),
            "providers": providers,
            "graphs": graphs,
            "policies": self.policies(parts.get("policies"), graphs),
            "server": self.server(parts.get("server")),
        }

    def known(self, node: Node, names: Iterable[str], what: str) -> None:
        for key, value in unknown_keys(node, frozenset(names)):
            if key in RESERVED:
                self.diagnostics.add("future_phase_field", f"'{key}' is reserved and not supported", value)
            elif key in STREAMING:
                self.diagnostics.add("removed_streaming_declaration", f"'{key}' is not supported", value)
            else:
                message = f"{what} has no member '{key}'; its members: {', '.join(names)}"
                self.diagnostics.add("invalid_cluster_yaml", message, value)

    def mapping(self, node: Node | None, what: str) -> dict[str, Node]:
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, dict):
            self.diagnostics.add("invalid_cluster_yaml", f"{what} must be a mapping, not {node.kind()}", node)
            return {}
        return dict(node.value)

    def text(self, node: Node | None, what: str, at: Node, code: str = "invalid_cluster_yaml") -> str:
        if node is None:
            self.diagnostics.add(code, f"{what} is missing", at)
        elif not isinstance(node.value, str) or not node.value.strip() or "\0" in node.value:
            self.diagnostics.add(code, f"{what} must be a text that is not blank", node)
        else:
            return node.value
        return ""

    def file(self, node: Node | None, what: str, at: Node) -> str:
        """A path inside the folder of the cluster file."""
        name = self.text(node, what, at)
        parts = Path(name).parts
        if name and (Path(name).is_absolute() or ".." in parts):
            self.diagnostics.add("invalid_cluster_yaml", f"{what} must be in the folder of the cluster file", node)
            return ""
        return Path(name).as_posix()

    def name(self, node: Node | None) -> str:
        """The name of the cluster, by default that of the folder."""
        if node is None:
            return self.base.absolute().name
        parts = self.mapping(node, "'metadata'")
        self.known(node, ("name",), "'metadata'")
        return self.text(parts.get("name"), "'metadata.name'", node, "empty_metadata_name")

    def root(self, node: Node | None) -> str:
        """Where graphs, ledger and catalogue are stored, by default in the folder itself."""
        if node is None:
            return str(self.base.absolute())
        text = self.text(node, "'storage'", node, "invalid_storage_root").rstrip("/")
        if "://" not in text:
            return str((self.base / text).absolute())
        if not text.startswith(_SCHEMES):
            self.diagnostics.add("invalid_storage_root", f"'{text}' is not an address of storage", node)
        return text

    def lock(self, node: Node | None) -> bool:
        parts = self.mapping(node, "'state'")
        if node is not None:
            self.known(node, ("backend", "lock"), "'state'")
        backend = parts.get("backend")
        if backend is not None and backend.value != "cluster":
            self.diagnostics.add("unsupported_state_backend", "'state.backend' must be cluster", backend)
        lock = parts.get("lock")
        if lock is not None and not isinstance(lock.value, bool):
            self.diagnostics.add("invalid_cluster_yaml", "'state.lock' must be true or false", lock)
        return True if lock is None else bool(lock.value)

    def providers(self, node: Node | None) -> dict[str, dict[str, Any]]:
        parts = self.mapping(node, "'providers'")
        for key, value in parts.items():
            if key != "embedding":
                self.diagnostics.add("future_phase_field", f"there are no providers of '{key}'", value)
        providers = {}
        for name, provider in self.mapping(parts.get("embedding"), "'providers.embedding'").items():
            what = f"embedding provider '{name}'"
            if not NAME.fullmatch(name):
                self.diagnostics.add("invalid_resource_id", f"'{name}' is not a name of a provider", provider)
            members = self.mapping(provider, what)
            self.known(provider, ("kind", "base_url", "model", "api_key"), what)
            for member, value in members.items():
                self.text(value, f"'{member}' of {what}", provider, "invalid_embedding_provider")
            kind, api_key = members.get("kind"), members.get("api_key")
            if kind is None or kind.value not in _KINDS:
                message = f"'kind' of {what} must be one of {', '.join(_KINDS)}"
                self.diagnostics.add("invalid_embedding_provider", message, kind or provider)
            elif api_key is None and kind.value in ("openai", "gemini"):
                self.diagnostics.add("embedding_api_key_required", f"{what} needs 'api_key: ${{VARIABLE}}'", provider)
            if api_key is not None and not _SECRET.fullmatch(str(api_key.value)):
                message = f"'api_key' of {what} must name a variable of the environment, as ${{VARIABLE}}"
                self.diagnostics.add("invalid_embedding_provider", message, api_key)
            providers[name] = {member: value.plain() for member, value in members.items()}
        return providers

    def graphs(self, node: Node | None, providers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        graphs = {}
        for id, graph in self.mapping(node, "'graphs'").items():
            what = f"graph '{id}'"
            if not ID.fullmatch(id) or id in RESERVED_IDS:
                message = (
                    f"'{id}' is not an id of a graph: 1 to 64 letters, digits and hyphens, not policies or cluster"
                )
                self.diagnostics.add("invalid_resource_id", message, graph)
            parts = self.mapping(graph, what)
            self.known(graph, ("schema", "queries", "embedding_provider", "external_blobs", "uri"), what)
            queries, named = self.queries(parts.get("queries"), what)
            settings: dict[str, Any] = {}
            provider = parts.get("embedding_provider")
            if provider is not None:
                settings["embedding_provider"] = provider.plain()
                if provider.value not in providers:
                    message = f"{what} names embedding provider '{provider.value}', which is not declared"
                    self.diagnostics.add("embedding_provider_profile_missing", message, provider)
            if "external_blobs" in parts:
                settings["external_blobs"] = self.external_blobs(parts["external_blobs"], what)
            uri = parts.get("uri")
            graphs[id] = {
                "schema": self.file(parts.get("schema"), f"'schema' of {what}", graph),
                "queries": queries,
                "named_queries": named,
                "uri": None if uri is None else self.address(uri, what),
                "settings": settings,
            }
        return graphs

    def address(self, node: Node, what: str) -> str:
        text = self.text(node, f"'uri' of {what}", node, "invalid_storage_root")
        if "://" in text or not text:
            return text.rstrip("/")
        return str((self.base / text).absolute())

    def queries(self, node: Node | None, what: str) -> tuple[str | tuple[str, ...], dict[str, str]]:
        """A folder, or files; and, if they are named, the file of each query."""
        match None if node is None else node.value:
            case None:
                return (), {}
            case str():
                return self.file(node, f"'queries' of {what}", node or Node(None, 0, 0)), {}
            case tuple() as items:
                return tuple(self.file(item, f"a file of {what}", item) for item in items), {}
            case dict() as items:
                named = {}
                for name, entry in items.items():
                    members = self.mapping(entry, f"query '{name}' of {what}")
                    self.known(entry, ("file",), f"query '{name}' of {what}")
                    named[name] = self.file(members.get("file"), f"'file' of query '{name}'", entry)
                return tuple(dict.fromkeys(named.values())), named
        self.diagnostics.add("invalid_cluster_yaml", f"'queries' of {what} must be a folder, a list or a mapping", node)
        return (), {}

    def external_blobs(self, node: Node, what: str) -> dict[str, Any]:
        self.known(node, ("allow",), f"'external_blobs' of {what}")
        allow = self.mapping(node, f"'external_blobs' of {what}").get("allow")
        for entry in () if allow is None else allow.items():
            members = self.mapping(entry, f"'external_blobs' of {what}")
            self.known(entry, ("base", "scope"), f"'external_blobs' of {what}")
            self.text(members.get("base"), "'base'", entry, "invalid_external_blob_policy")
            scope = members.get("scope")
            if scope is not None and scope.value not in ("server_safe", "embedded_only"):
                self.diagnostics.add(
                    "invalid_external_blob_policy", "'scope' must be server_safe or embedded_only", scope
                )
        plain: dict[str, Any] = node.plain() or {}
        return plain

    def policies(self, node: Node | None, graphs: dict[str, Any]) -> dict[str, dict[str, Any]]:
        policies: dict[str, dict[str, Any]] = {}
        bound: dict[str, str] = {}
        for name, policy in self.mapping(node, "'policies'").items():
            what = f"policy '{name}'"
            if not NAME.fullmatch(name):
                self.diagnostics.add("invalid_resource_id", f"'{name}' is not a name of a policy", policy)
            parts = self.mapping(policy, what)
            self.known(policy, ("file", "applies_to"), what)
            scopes = self.applies_to(parts.get("applies_to"), what, policy, graphs)
            for scope in scopes:
                if scope in bound:
                    message = f"{what} and policy '{bound[scope]}' both apply to '{scope}'; one policy for each"
                    self.diagnostics.add("duplicate_policy_binding", message, policy)
                bound[scope] = name
            policies[name] = {
                "file": self.file(parts.get("file"), f"'file' of {what}", policy),
                "applies_to": scopes,
            }
        return policies

    def applies_to(self, node: Node | None, what: str, at: Node, graphs: dict[str, Any]) -> tuple[str, ...]:
        if node is None or not node.items():
            self.diagnostics.add("policy_missing_applies_to", f"{what} has no 'applies_to: [GRAPH...]'", node or at)
            return ()
        scopes = tuple(self.text(item, f"'applies_to' of {what}", item) for item in node.items())
        if "cluster" in scopes and len(scopes) > 1:
            message = f"{what} applies to the cluster and to graphs; write two policies"
            self.diagnostics.add("policy_mixed_binding_kinds", message, node)
        for scope, item in zip(scopes, node.items(), strict=True):
            if scope != "cluster" and scope not in graphs:
                self.diagnostics.add(
                    "policy_bindings_missing", f"{what} applies to graph '{scope}', which is not here", item
                )
        return scopes

    def server(self, node: Node | None) -> dict[str, Any]:
        parts = self.mapping(node, "'server'")
        if node is not None:
            self.known(node, ("cors", "limits", "load_sources", "mcp"), "'server'")
        for key in ("cors", "load_sources"):
            for item in parts[key].items() if key in parts else ():
                self.text(item, f"a member of 'server.{key}'", item)
        declared = {key: value.plain() for key, value in parts.items()}
        if "limits" in parts:
            declared["limits"] = self.limits(parts["limits"])
        if "mcp" in parts:
            self.agents(parts["mcp"])
        return declared

    def agents(self, node: Node) -> None:
        """Checks 'server.mcp': whether agents may pass queries as text."""
        self.known(node, ("adhoc",), "'server.mcp'")
        for value in self.mapping(node, "'server.mcp'").values():
            if not isinstance(value.value, bool):
                self.diagnostics.add("invalid_cluster_yaml", "'server.mcp.adhoc' must be true or false", value)

    def limits(self, node: Node) -> dict[str, int]:
        """The limits, by the names that the server uses."""
        self.known(node, tuple(_LIMITS), "'server.limits'")
        limits = {}
        for key, value in self.mapping(node, "'server.limits'").items():
            if isinstance(value.value, bool) or not isinstance(value.value, int) or not 0 < value.value < 2**63:
                self.diagnostics.add("invalid_cluster_yaml", f"'server.limits.{key}' must be a number above 0", value)
            elif key in _LIMITS:
                limits[_LIMITS[key]] = value.value
        return limits


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

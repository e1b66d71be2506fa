"""The cluster file: what it says, and every refusal with its code and place."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.cluster.config import read_config
from omnigraph.errors import ConfigurationError

SCHEMA = "node Person { name: String @key }\n"
QUERIES = "query everyone() { match { $p: Person } return { $p.name as name } }\n"
POLICY = "version: 1\ngroups: {devs: [ada]}\nrules: [{id: r, allow: {actors: {group: devs}, actions: [read]}}]\n"
SERVER = "version: 1\ngroups: {devs: [ada]}\nrules: [{id: s, allow: {actors: {group: devs}, actions: [graph_list]}}]\n"
HEAD = "version: 1\nmetadata: {name: demo}\n"
FULL = (
    HEAD
    + """storage: s3://bucket/demo/
state: {backend: cluster, lock: false}
providers: {embedding: {default: {kind: openai, api_key: "${OPENAI_API_KEY}"}}}
graphs:
  people:
    schema: people.pg
    queries: queries/
    embedding_provider: default
    external_blobs: {allow: [{base: "s3://assets/people/", scope: server_safe}]}
  more:
    schema: people.pg
    queries: {everyone: {file: queries/people.gq}}
    uri: s3://other/place
policies:
  data: {file: data.policy.yaml, applies_to: [people, more]}
  server: {file: server.policy.yaml, applies_to: [cluster]}
server: {cors: ["https://a.example"], load_sources: ["s3://inbox/"]}
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queries").mkdir()
    for name, text in {
        "people.pg": SCHEMA,
        "queries/people.gq": QUERIES,
        "queries/same.gq.off": QUERIES,
        "data.policy.yaml": POLICY,
        "server.policy.yaml": SERVER,
        "broken.pg": "node {",
        "broken.gq": "query q() { match { $p: Persn } return { $p.name } }",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_cluster_file_is_read_with_the_files_it_names(folder: Path) -> None:
    (folder / "cluster.yaml").write_text(FULL)
    config = read_config(folder)
    assert (config.name, config.root, config.has_lock) == ("demo", "s3://bucket/demo", False)
    assert config.graphs["people"].uri == "s3://bucket/demo/graphs/people.omni"
    assert config.graphs["more"].uri == "s3://other/place"
    assert list(config.graphs["people"].queries) == ["everyone"]
    assert config.server == {"cors": ["https://a.example"], "load_sources": ["s3://inbox/"]}
    assert set(config.resources) == {
        *("graph.people", "schema.people", "query.people.everyone"),
        *("graph.more", "schema.more", "query.more.everyone"),
        *("policy.data", "policy.server", "provider.embedding.default"),
    }
    before = config.digest
    (folder / "queries" / "people.gq").write_text(QUERIES + "// more\n")
    assert read_config(folder).digest != before


def test_storage_is_the_folder_itself_unless_the_file_says_otherwise(folder: Path) -> None:
    (folder / "cluster.yaml").write_text(HEAD + "graphs: {people: {schema: people.pg}}")
    assert read_config(folder).graphs["people"].uri == str(folder / "graphs" / "people.omni")


GRAPH = "graphs:\n  people:\n    schema: people.pg\n"
REFUSED = {
    "not YAML": ("version: [", "invalid_cluster_yaml", 1),
    "not a mapping": ("7", "invalid_cluster_yaml", 1),
    "a key twice": (HEAD + "version: 1", "duplicate_yaml_key", 3),
    "an unknown member": (HEAD + "graph: {}", "invalid_cluster_yaml", 3),
    "a reserved member": (HEAD + "pipelines: {}", "future_phase_field", 3),
    "a reserved member of a graph": (HEAD + GRAPH + "    bindings: {}", "future_phase_field", 6),
    "streaming": (HEAD + "streams: {}", "removed_streaming_declaration", 3),
    "another version": ("version: 2\nmetadata: {name: x}", "unsupported_cluster_config_version", 1),
    "no name": ("version: 1\nmetadata: {name: ' '}", "empty_metadata_name", 2),
    "metadata without a name": ("version: 1\nmetadata: {}", "empty_metadata_name", 2),
    "an odd address": (HEAD + "storage: ftp://x", "invalid_storage_root", 3),
    "another backend": (HEAD + "state: {backend: s3}", "unsupported_state_backend", 3),
    "an odd id": (HEAD + "graphs: {a_b: {schema: people.pg}}", "invalid_resource_id", 3),
    "a reserved id": (HEAD + "graphs: {policies: {schema: people.pg}}", "invalid_resource_id", 3),
    "no schema": (HEAD + "graphs: {people: {}}", "invalid_cluster_yaml", 3),
    "a schema that is not there": (HEAD + "graphs: {people: {schema: x.pg}}", "schema_file_missing", 0),
    "a schema outside": (HEAD + "graphs: {people: {schema: ../x.pg}}", "invalid_cluster_yaml", 3),
    "a schema that does not compile": (HEAD + "graphs: {people: {schema: broken.pg}}", "schema_parse_error", 1),
    "a folder that is not there": (HEAD + GRAPH + "    queries: nowhere", "query_file_missing", 0),
    "a query that does not compile": (HEAD + GRAPH + "    queries: [broken.gq]", "query_parse_error", 1),
    "a file without the query": (
        HEAD + GRAPH + "    queries: {other: {file: queries/people.gq}}",
        "query_name_mismatch",
        0,
    ),
    "two graphs at one address": (
        HEAD + GRAPH + "  more: {schema: people.pg, uri: graphs/people.omni}",
        "duplicate_graph_address",
        0,
    ),
    "a policy that is not there": (
        HEAD + GRAPH + "policies: {p: {file: x.yaml, applies_to: [people]}}",
        "policy_file_missing",
        0,
    ),
    "a policy for nobody": (
        HEAD + GRAPH + "policies:\n  p: {file: data.policy.yaml}",
        "policy_missing_applies_to",
        7,
    ),
    "a policy for everything": (
        HEAD + GRAPH + "policies:\n  p: {file: data.policy.yaml, applies_to: [people, cluster]}",
        "policy_mixed_binding_kinds",
        7,
    ),
    "a policy for another graph": (
        HEAD + GRAPH + "policies:\n  p: {file: data.policy.yaml, applies_to: [cities]}",
        "policy_bindings_missing",
        7,
    ),
    "two policies for a graph": (
        HEAD
        + GRAPH
        + "policies:\n  p: {file: data.policy.yaml, applies_to: [people]}\n  q: {file: data.policy.yaml, applies_to: [people]}",
        "duplicate_policy_binding",
        8,
    ),
    "a policy of the server for a graph": (
        HEAD + GRAPH + "policies:\n  p: {file: server.policy.yaml, applies_to: [people]}",
        "invalid_policy",
        0,
    ),
    "a secret in the file": (
        HEAD + "providers: {embedding: {d: {kind: openai, api_key: sk-123}}}",
        "invalid_embedding_provider",
        3,
    ),
    "no secret": (HEAD + "providers: {embedding: {d: {kind: openai}}}", "embedding_api_key_required", 3),
    "another provider": (HEAD + "providers: {chat: {}}", "future_phase_field", 3),
    "a provider that is not declared": (
        HEAD + GRAPH + "    embedding_provider: d",
        "embedding_provider_profile_missing",
        6,
    ),
    "a switch of agents that is no switch": (HEAD + "server: {mcp: {adhoc: maybe}}", "invalid_cluster_yaml", 3),
    "blobs without a base": (
        HEAD + GRAPH + "    external_blobs: {allow: [{scope: server_safe}]}",
        "invalid_external_blob_policy",
        6,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_cluster_file_is_refused_with_code_and_line(folder: Path, case: str) -> None:
    text, code, line = REFUSED[case]
    (folder / "cluster.yaml").write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        read_config(folder)
    assert (code, line) in [(problem.code, problem.line) for problem in refused.value.problems]
    assert "sk-123" not in str(refused.value.to_json())


def test_two_files_with_one_query_are_refused(folder: Path) -> None:
    (folder / "queries" / "same.gq").write_text(QUERIES)
    (folder / "cluster.yaml").write_text(HEAD + GRAPH + "    queries: queries")
    with pytest.raises(ConfigurationError, match="two queries are called 'everyone'"):
        read_config(folder)


@pytest.mark.parametrize(("place", "code"), [("nowhere", "config_dir_not_found"), (".", "cluster_config_read_error")])
def test_a_folder_without_a_cluster_file_is_refused(tmp_path: Path, place: str, code: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_config(tmp_path / place)
    assert refused.value.problems[0].code == code

/** Answers of the server, as far as the page reads them. */
import type { Fields, Json } from "./api";

export type Op = "insert" | "update" | "delete";
export type Kind = "node" | "edge";

export interface Commit {
  graph_commit_id: string;
  graph_branch: string | null;
  parent_commit_id: string | null;
  merged_parent_commit_id: string | null;
  actor_id: string | null;
  /** Microseconds since 1970. */
  created_at: number;
  kind?: string;
  message?: string;
}

export interface Property {
  name: string;
  type: string;
  scalar: string;
  nullable: boolean;
  list: boolean;
  enum?: string[];
  vector_dim?: number;
  description?: string;
  embed?: Fields;
}

export interface Constraint {
  kind: "key" | "unique" | "index" | "range" | "check";
  fields: string[];
  minimum?: number;
  maximum?: number;
  pattern?: string;
}

export interface IndexState {
  property: string;
  kind: string;
  covered_rows: number;
  pending_rows: number;
  reason?: string;
}

export interface TypeInfo {
  name: string;
  properties: Property[];
  constraints: Constraint[];
  entity_count: number;
  indexes: IndexState[];
  description?: string;
}

export interface NodeInfo extends TypeInfo {
  key: string[];
  implements?: string[];
}

export interface EdgeInfo extends TypeInfo {
  from: string;
  to: string;
  min_out: number;
  max_out: number | null;
}

export interface InterfaceInfo {
  name: string;
  properties: Property[];
  types: string[];
}

export interface Catalog {
  graph_commit_id: string;
  schema_hash: string;
  nodes: NodeInfo[];
  edges: EdgeInfo[];
  interfaces: InterfaceInfo[];
}

export interface Image {
  properties: Fields;
  endpoints?: { from: string; to: string };
}

export interface Change {
  kind: Kind;
  type: { id: string; name: string };
  id: string;
  op: Op;
  before?: Image;
  after?: Image;
}

export interface TypeSummary {
  entity_kind: Kind;
  type_name: string;
  insert: number;
  update: number;
  delete: number;
  properties: Record<string, number>;
}

export interface Diff {
  from: string;
  to: string;
  changes?: Change[];
  summary?: TypeSummary[];
  next_page_token?: string;
}

export interface BranchDetail {
  name: string;
  head: Commit;
  ahead: number;
  behind: number;
  protected: boolean;
}

export interface Tag {
  name: string;
  graph_commit_id: string;
  graph_branch: string;
}

export interface Rights {
  actor_id: string | null;
  actions: Record<string, "all" | "none" | "protected" | "unprotected">;
  protected_branches: string[];
}

export interface EntityPage {
  entity_kind: Kind;
  type_name: string;
  columns: string[];
  rows: Fields[];
  graph_commit_id: string;
  next_page_token?: string;
}

export interface EntityState {
  entity_kind: Kind;
  type_name: string;
  id: string;
  properties: Fields;
  endpoints?: { from: string; to: string };
  blobs?: Record<string, number>;
}

export interface EntityVersion {
  commit: Commit;
  op: Op;
  properties?: Fields;
}

export interface NearNode {
  type: string;
  id: string;
  label: string;
  properties: Fields;
}

export interface NearEdge {
  type: string;
  id: string;
  from: string;
  to: string;
  properties: Fields;
}

export interface EdgeCount {
  edge: string;
  direction: "out" | "in";
  type: string;
  count: number;
}

export interface Neighbours {
  nodes: NearNode[];
  edges: NearEdge[];
  counts: EdgeCount[];
  next_page_token?: string;
}

export interface Result {
  query_name: string;
  row_count: number;
  rows: Fields[];
  columns?: string[];
  graph_commit_id?: string;
}

export interface Log {
  commits: Commit[];
  refs: Record<string, string[]>;
  next_page_token?: string;
}

export interface Conflict {
  entity_kind: Kind;
  type_name: string;
  entity_id: string | null;
  kind: string;
  message: string;
  fields: string[];
  digest: string;
  base?: Image;
  ours?: Image;
  theirs?: Image;
}

export interface Review {
  source: string;
  target: string;
  outcome: "already_up_to_date" | "fast_forward" | "merged" | "conflicts";
  base: string[];
  source_commit: string;
  target_commit: string;
  changes: Record<string, { inserted?: number; updated?: number; deleted?: number; way?: string }>;
  conflicts: Conflict[];
  schema_conflicts?: Fields[];
  schema_steps?: Fields[];
}

export interface Job {
  job_id: string;
  state: "queued" | "running" | "done" | "failed" | "cancelled" | "prepared";
  branch: string;
  seconds: number;
  rows: number;
  bytes: number;
  rejected: number;
  mode?: string;
  stage?: string;
  done?: number;
  tasks?: number;
  result?: { commit: Commit | null; total_entities: number; branch: string };
  error?: { error: string; problem?: { hint?: string } };
}

export interface TypeStorage {
  type: string;
  rows: number;
  fragments: number;
  deleted_rows: number;
  live_bytes: number;
  history_bytes: number;
  adjacency_bytes: number;
  reclaimable_bytes: number;
  indexes: { column: string; kind: string; covered_rows: number; pending_rows: number; reason?: string }[];
}

export interface Storage {
  branch: string;
  reclaimable_bytes: number;
  types: TypeStorage[];
  kept: { name: string; commits: number; files_alone: number; bytes_alone: number }[];
  history: { files: number; bytes: number };
  held_bytes: number;
  branches: number;
  tags: number;
  commits: number;
}

export interface Diagnostic {
  line: number;
  column: number;
  end_line: number;
  end_column: number;
  rule: string;
  severity: "error" | "warning" | "info";
  message: string;
  hint?: string;
}

export interface StoredQuery {
  name: string;
  mutation: boolean;
  params: { name: string; kind: string; nullable: boolean }[];
  description?: string;
}

export type Row = Record<string, Json>;

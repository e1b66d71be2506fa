/** Where the page is, and what every view needs: the graph, its revision, its types, the caller's rights. */
import { computed, effect, signal } from "@preact/signals";
import { ApiError, follow, get, graphPath, pathOf, sent } from "./api";
import type { BranchDetail, Catalog, EdgeInfo, NodeInfo, Rights, Tag } from "./wire";

export const VIEWS = ["overview", "schema", "browse", "explore", "query", "history", "merge", "loads", "refs", "health"] as const;

export interface Place {
  graph: string;
  view: string;
  rest: string[];
  params: URLSearchParams;
}

function parse(hash: string): Place {
  const [path, query] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [graph = "", view = "", ...rest] = (path ?? "").split("/").map(decode);
  return { graph, view: view || "overview", rest, params: new URLSearchParams(query ?? "") };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const place = signal<Place>(parse(""));
export const graph = computed(() => place.value.graph);
export const rev = computed(() => place.value.params.get("rev") ?? "main");
export const at = computed(() => place.value.params.get("at") ?? "");

export function startPlace(): void {
  const update = () => {
    const next = parse(location.hash);
    const isOther = next.view !== place.value.view || next.graph !== place.value.graph || next.rest.join() !== place.value.rest.join();
    if (isOther) sent.value = [];
    place.value = next;
  };
  addEventListener("hashchange", update);
  addEventListener("popstate", update);
  update();
}

type Params = Record<string, string | readonly string[] | null | undefined>;

/** The address of a view of this graph; the revision is kept unless it is given. */
export function link(view: string, rest: readonly string[] = [], params: Params = {}, graphName = graph.value): string {
  const kept: Params = graphName === graph.value ? { rev: place.value.params.get("rev"), at: place.value.params.get("at") } : {};
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...kept, ...params })) {
    for (const each of Array.isArray(value) ? value : [value]) if (each) pairs.append(name, each);
  }
  if (pairs.get("rev") === "main" && !pairs.get("at")) pairs.delete("rev");
  const query = pairs.toString();
  return `#/${[graphName, view, ...rest].map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

export const go = (address: string): void => {
  location.hash = address.slice(1);
};

/** Changes parameters of the present view. `replace`: without an entry in the browser's history. */
export function setParams(changes: Params, replace = false): void {
  const { graph, view, rest, params } = place.value;
  const next: Params = {};
  for (const name of new Set([...params.keys(), ...Object.keys(changes)])) {
    next[name] = name in changes ? changes[name] : params.getAll(name);
  }
  const address = link(view, rest, { rev: null, at: null, ...next }, graph);
  if (address === `#${location.hash.slice(1)}`) return;
  if (replace) {
    history.replaceState(null, "", address);
    place.value = parse(address);
  } else go(address);
}

export const param = (name: string): string => place.value.params.get(name) ?? "";

export interface Loading<T> {
  data?: T;
  error?: ApiError;
  isLoading: boolean;
}

function resource<T>(load: (stop: AbortSignal) => Promise<T> | null): { value: ReturnType<typeof signal<Loading<T>>>; } {
  const value = signal<Loading<T>>({ isLoading: true });
  let stop = new AbortController();
  let previous = "";
  effect(() => {
    stop.abort();
    stop = new AbortController();
    const own = stop;
    const name = graph.value;
    const work = load(own.signal);
    if (!work) return;
    value.value = previous === name && value.peek().data !== undefined ? { data: value.peek().data!, isLoading: true } : { isLoading: true };
    previous = name;
    work.then(
      (data) => {
        if (!own.signal.aborted) value.value = { data, isLoading: false };
      },
      (error: unknown) => {
        if (!own.signal.aborted) value.value = { error: asApiError(error), isLoading: false };
      },
    );
  });
  return { value };
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(0, error instanceof Error ? error.message : String(error), "page", undefined, "", false, {});
}

/** Grows whenever something should be read again. */
export const reads = signal(0);
export const readAgain = (): void => {
  reads.value++;
  moved.value = null;
};

export const graphs = signal<Loading<string[]>>({ isLoading: true });
export const catalog = signal<Loading<Catalog>>({ isLoading: true });
export const refs = signal<Loading<{ branches: BranchDetail[]; tags: Tag[] }>>({ isLoading: true });
export const rights = signal<Rights | null>(null);
/** The commit that the branch shown has moved to, if it has. */
export const moved = signal<string | null>(null);
/** Grows with every commit that the server tells about. */
export const commits = signal(0);

const isRefused = computed(() => catalog.value.error !== undefined);
export const commitId = computed(() => catalog.value.data?.graph_commit_id ?? "");
export const isBranch = computed(() => !at.value && (refs.value.data?.branches.some((branch) => branch.name === rev.value) ?? rev.value === "main"));

export const nodeTypes = computed(() => new Map((catalog.value.data?.nodes ?? []).map((node) => [node.name, node])));
export const edgeTypes = computed(() => new Map((catalog.value.data?.edges ?? []).map((edge) => [edge.name, edge])));
export const typeNamed = (name: string): NodeInfo | EdgeInfo | undefined => nodeTypes.value.get(name) ?? edgeTypes.value.get(name);
export const isEdge = (info: NodeInfo | EdgeInfo): info is EdgeInfo => "max_out" in info;

export const PALETTE = 8;
/** The colour of each node type: the one its name hashes to or, if an earlier type has that, the next free one. */
export const colours = computed(() => assignColours((catalog.value.data?.nodes ?? []).map((node) => node.name)));

export function assignColours(names: readonly string[]): Map<string, number> {
  const slots = new Map<string, number>();
  const taken = new Set<number>();
  for (const name of names) {
    if (taken.size === PALETTE) taken.clear();
    let slot = hash(name) % PALETTE;
    while (taken.has(slot)) slot = (slot + 1) % PALETTE;
    taken.add(slot);
    slots.set(name, slot);
  }
  return slots;
}

/** FNV-1a over UTF-8, 32 bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  return value;
}

export const colourOf = (type: string): string => `var(--type-${colours.value.get(type) ?? hash(type) % PALETTE})`;

/** Why the caller may not do something on a branch; empty if it is allowed. */
export function whyNot(action: string, branch = "main"): string {
  const known = rights.value;
  if (!known) return "";
  const scope = known.actions[action] ?? "none";
  const isProtected = known.protected_branches.includes(branch);
  if (scope === "all" || (scope === "protected" && isProtected) || (scope === "unprotected" && !isProtected)) return "";
  const who = known.actor_id ?? "this caller";
  return isProtected && scope === "unprotected" ? `${who} may not do this on the protected branch ${branch}` : `the policy does not let ${who} do this (${action})`;
}

export function startLoading(): void {
  const named = <T,>(target: typeof graphs | typeof catalog | typeof refs, load: (stop: AbortSignal) => Promise<T> | null) => {
    const { value } = resource(load);
    effect(() => {
      (target as { value: unknown }).value = value.value;
    });
  };
  named(graphs, async (stop) => {
    void reads.value;
    const { graphs } = await get<{ graphs: { graph_id: string }[] }>("/graphs", stop);
    return graphs.map((graph) => graph.graph_id);
  });
  named(catalog, (stop) => {
    void reads.value;
    if (!graph.value) return null;
    return get<Catalog>(pathOf(graphPath(graph.value, "/catalog"), { rev: rev.value, at: at.value }), stop);
  });
  named(refs, (stop) => {
    void reads.value;
    const name = graph.value;
    if (!name) return null;
    return Promise.all([
      get<{ details: BranchDetail[] }>(pathOf(graphPath(name, "/branches"), { detail: true }), stop),
      get<{ tags: Tag[] }>(graphPath(name, "/tags"), stop),
    ]).then(([branches, tags]) => ({ branches: branches.details, tags: tags.tags }));
  });
  effect(() => {
    const name = graph.value;
    rights.value = null;
    if (!name) return;
    get<Rights>(graphPath(name, "/policy/me")).then(
      (value) => {
        if (graph.peek() === name) rights.value = value;
      },
      (error: unknown) => {
        // Who may not even ask may do nothing.
        if (graph.peek() === name && asApiError(error).isDenied) rights.value = { actor_id: null, actions: {}, protected_branches: [] };
      },
    );
  });
  let stop = new AbortController();
  effect(() => {
    stop.abort();
    moved.value = null;
    if (!graph.value || !isBranch.value || isRefused.value) return;
    stop = new AbortController();
    const branch = rev.value;
    let isCaughtUp = false;
    void follow(pathOf(graphPath(graph.value, "/changes/stream"), { branch, start: "now" }), stop.signal, (event, data) => {
      if (event === "caught_up") isCaughtUp = true;
      else if (event === "block" && isCaughtUp) {
        commits.value++;
        const cause = (data as { cause?: { graph_commit_id?: string } }).cause;
        if (rev.peek() === branch && cause?.graph_commit_id && cause.graph_commit_id !== commitId.peek()) moved.value = cause.graph_commit_id;
      }
    });
  });
  effect(() => {
    const only = graphs.value.data;
    if (only?.length && !graph.value) history.replaceState(null, "", `#/${encodeURIComponent(only[0]!)}/overview`), (place.value = parse(location.hash));
  });
}

/** What opens over a view: find and go, the revision, the requests, the keys. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, get, graphPath, pathOf, sent, token, type Json } from "./api";
import { shortId, shown } from "./format";
import { at, catalog, commitId, go, graph, link, place, refs, rev, setParams, VIEWS } from "./state";
import { Age, Button, copy, Dialog, Tabs, TypeName, useLater, useLoad } from "./ui";
import type { Commit, NodeInfo, Result } from "./wire";

const COMBOBOX: object = { role: "combobox" };

interface Choice {
  group: string;
  text: string;
  detail?: string;
  type?: string;
  run: () => void;
}

/** Nodes whose key or first text contains the words, type by type. */
export async function findNodes(name: string, commit: string, nodes: readonly NodeInfo[], words: string, stop: AbortSignal, limit = 6): Promise<{ type: string; id: string; text: string }[]> {
  const searched = nodes.slice(0, 12).flatMap((node) => {
    const texts = node.properties.filter((property) => property.scalar === "String" && !property.list && !property.enum);
    const shownBy = texts.find((property) => node.key.includes(property.name)) ?? texts.find((property) => /^(name|title|label)$/.test(property.name)) ?? texts[0];
    return shownBy ? [{ type: node.name, property: shownBy.name }] : [];
  });
  const found = await Promise.all(
    searched.map(async ({ type, property }) => {
      const query = `query find($words: String) {\n  match { $e: ${type}  lower($e.${property}) contains lower($words) }\n  return { $e.id as id, $e.${property} as text }\n  order { text }\n  limit ${limit}\n}`;
      const result = await ask<Result>(graphPath(name, "/query"), { query, params: { words }, snapshot: commit }, stop);
      return result.rows.map((row) => ({ type, id: String(row.id), text: String(row.text) }));
    }),
  );
  return found.flat();
}

export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const words = useLater(text.trim(), 120);
  const nodes = catalog.value.data?.nodes ?? [];
  const found = useLoad([words, commitId.value], (stop) => (words && commitId.value ? findNodes(graph.value, commitId.value, nodes, words, stop) : Promise.resolve([])));
  const open = (address: string) => () => {
    onClose();
    go(address);
  };
  const low = text.trim().toLowerCase();
  const fits = (choice: Choice) => !low || choice.text.toLowerCase().includes(low);
  const choices: Choice[] = [
    ...(low ? (found.data ?? []).map((node) => ({ group: "Nodes", text: node.text, detail: "explore", type: node.type, run: open(link("explore", [], { node: `${node.type}:${node.id}` })) })) : []),
    ...VIEWS.map((view) => ({ group: "Views", text: view[0]!.toUpperCase() + view.slice(1), run: open(link(view)) })).filter(fits),
    ...[...nodes, ...(catalog.value.data?.edges ?? [])].map((type) => ({ group: "Types", text: type.name, type: type.name, detail: "browse", run: open(link("browse", [type.name])) })).filter(fits),
    ...(refs.value.data?.branches ?? []).map((branch) => ({ group: "Branches", text: branch.name, detail: "look at", run: open(link(place.value.view, place.value.rest, { rev: branch.name, at: null })) })).filter(fits),
    ...(refs.value.data?.branches ?? []).filter((branch) => branch.ahead).map((branch) => ({ group: "Merge", text: `Merge ${branch.name}`, run: open(link("merge", [branch.name, "main"])) })).filter(fits),
  ].slice(0, 60);
  const at = Math.min(active, choices.length - 1);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [at]);
  const keys = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setActive(Math.min(at + 1, choices.length - 1));
    else if (event.key === "ArrowUp") setActive(Math.max(at - 1, 0));
    else if (event.key === "Enter") choices[at]?.run();
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Find and go" onClose={onClose} isTop>
      <input type="search" aria-label="Find a node, a type, a view or a branch" placeholder="A node, a type, a view, a branch" value={text} onKeyDown={keys} onInput={(event) => { setText(event.currentTarget.value); setActive(0); }} {...COMBOBOX} aria-expanded="true" aria-controls="choices" aria-activedescendant={choices[at] ? `choice-${at}` : undefined} autofocus />
      <div class="options" id="choices" role="listbox" aria-label="Choices" ref={list}>
        {choices.map((choice, number) => (
          <div key={`${choice.group}${choice.type ?? ""}${choice.text}`} id={`choice-${number}`} role="option" class="option" aria-selected={number === at} onClick={choice.run}>
            {choice.type ? <TypeName name={choice.group === "Nodes" ? choice.type : choice.text} /> : <span class="ellipsis">{choice.text}</span>}
            {choice.group === "Nodes" && <strong class="ellipsis"><bdi>{shown(choice.text, 60)}</bdi></strong>}
            <span class="grow" />
            <span class="muted small">{choice.detail ?? choice.group}</span>
          </div>
        ))}
        {!choices.length && <p class="muted small" role="status">{found.isLoading ? "Looking…" : "Nothing has this text."}</p>}
      </div>
    </Dialog>
  );
}

export function RevisionDialog({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [time, setTime] = useState(at.value.slice(0, 16));
  const log = useLoad([graph.value], (stop) => get<{ commits: Commit[] }>(pathOf(graphPath(graph.value, "/log"), { limit: 30 }), stop));
  const choose = (name: string) => {
    onClose();
    setParams({ rev: name, at: null });
  };
  const low = text.toLowerCase();
  const fits = (name: string) => name.toLowerCase().includes(low);
  const branches = (refs.value.data?.branches ?? []).filter((branch) => fits(branch.name));
  const tags = (refs.value.data?.tags ?? []).filter((tag) => fits(tag.name));
  return (
    <Dialog title="Look at another revision" onClose={onClose} isTop>
      <form class="row" onSubmit={(event) => { event.preventDefault(); if (text.trim()) choose(text.trim()); }}>
        <input type="search" class="grow" aria-label="Branch, tag, commit id or branch~N" placeholder="Branch, tag, commit id, main~3" value={text} onInput={(event) => setText(event.currentTarget.value)} autofocus />
        <Button type="submit" kind="primary">Go</Button>
      </form>
      <form class="row" onSubmit={(event) => { event.preventDefault(); if (time) { onClose(); setParams({ rev: branches.some((branch) => branch.name === rev.value) ? rev.value : "main", at: new Date(`${time}Z`).toISOString() }); } }}>
        <label class="field grow">As of a time (UTC)<input type="datetime-local" value={time} onInput={(event) => setTime(event.currentTarget.value)} /></label>
        <Button type="submit">Go</Button>
      </form>
      <div class="options">
        {branches.length > 0 && <div class="group">Branches</div>}
        {branches.map((branch) => (
          <button key={branch.name} type="button" class="option" onClick={() => choose(branch.name)}>
            <span class="chip branch ellipsis">{branch.name}</span>
            <span class="grow" />
            <span class="muted small">{branch.name === "main" ? "" : `${branch.ahead} ahead, ${branch.behind} behind`}</span>
          </button>
        ))}
        {tags.length > 0 && <div class="group">Tags</div>}
        {tags.map((tag) => (
          <button key={tag.name} type="button" class="option" onClick={() => choose(tag.name)}>
            <span class="chip tag ellipsis">{tag.name}</span>
            <span class="grow" />
            <span class="mono muted">{shortId(tag.graph_commit_id)}</span>
          </button>
        ))}
        <div class="group">Commits</div>
        {(log.data?.commits ?? []).filter((commit) => fits(commit.message ?? "") || fits(commit.graph_commit_id)).map((commit) => (
          <button key={commit.graph_commit_id} type="button" class="option" onClick={() => choose(commit.graph_commit_id)}>
            <span class="mono">{shortId(commit.graph_commit_id)}</span>
            <span class="ellipsis grow">{shown(commit.message ?? commit.kind ?? "", 80)}</span>
            <span class="muted small"><Age commit={commit} /></span>
          </button>
        ))}
      </div>
    </Dialog>
  );
}

function curl(entry: { method: string; path: string; body?: Json }): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const lines = [`curl -s ${entry.method === "GET" ? "" : `-X ${entry.method} `}${quoted(location.origin + entry.path)}`];
  if (token.value) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  if (entry.body !== undefined) lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(entry.body))}`);
  return lines.join(" \\\n  ");
}

function python(entry: { method: string; path: string; body?: Json }): string {
  const parts = [JSON.stringify(entry.method), JSON.stringify(location.origin + entry.path)];
  if (token.value) parts.push('headers={"Authorization": f"Bearer {token}"}');
  const body = entry.body === undefined ? "" : `, json=json.loads(${JSON.stringify(JSON.stringify(entry.body))})`;
  return `import json\nimport httpx\n\nanswer = httpx.request(${parts.join(", ")}${body})\nprint(answer.json())`;
}

export function RequestPanel({ onClose }: { onClose: () => void }) {
  const [language, setLanguage] = useState("curl");
  const entries = [...sent.value].reverse();
  return (
    <Dialog title="The requests behind this view" onClose={onClose}>
      <Tabs label="Language" names={[["curl", "curl"], ["python", "Python"]]} value={language} onChange={setLanguage} />
      <div class="options">
        {!entries.length && <p class="muted">This view has sent no request yet.</p>}
        {entries.map((entry) => {
          const text = language === "curl" ? curl(entry) : python(entry);
          return (
            <div key={entry.path + JSON.stringify(entry.body)} class="field">
              <div class="row">
                <span class="grow ellipsis">{entry.method} {entry.path.split("?")[0]}</span>
                <Button kind="plain" onClick={() => void copy(text, "The request")}>Copy</Button>
              </div>
              {entry.query && <pre class="code" tabIndex={0} aria-label="Query">{entry.query}</pre>}
              <pre class="code wrap" tabIndex={0} aria-label="Request">{text}</pre>
            </div>
          );
        })}
      </div>
    </Dialog>
  );
}

const KEYS: [string, string][] = [
  ["Ctrl K", "find a node, a type, a view"],
  ["/", "to the filter of the view"],
  ["g then o s b e q h m l r c", "overview, schema, browse, explore, query, history, merge, loads, refs, health"],
  ["↑ ↓ Enter", "move in tables and lists, open"],
  ["Space", "history: mark two commits to compare"],
  ["1 2 3", "merge: ours, theirs, base"],
  ["x", "merge: delete"],
  ["n p", "merge: next, previous conflict"],
  ["Ctrl Enter", "query: run"],
  ["+ − 0", "picture: nearer, farther, all of it"],
  ["Esc", "close"],
];

export const ShortcutList = ({ onClose }: { onClose: () => void }) => (
  <Dialog title="Keyboard" onClose={onClose}>
    <table>
      <tbody>
        {KEYS.map(([key, text]) => (
          <tr key={key}>
            <th scope="row"><kbd>{key}</kbd></th>
            <td>{text}</td>
          </tr>
        ))}
      </tbody>
    </table>
  </Dialog>
);

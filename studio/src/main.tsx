/** The page: top bar, rail, the view that the address names. Views other than the first come when they are needed. */
import { signal } from "@preact/signals";
import { render, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { isOffline, needsToken, setToken, takeToken, token } from "./api";
import { age, shortId } from "./format";
import { Palette, RequestPanel, RevisionDialog, ShortcutList } from "./panels";
import { at, catalog, commitId, go, graph, graphs, isBranch, link, moved, place, readAgain, refs, rev, rights, startLoading, startPlace, VIEWS } from "./state";
import { Button, Empty, Icon, Problem, Skeleton, Toast, useKeys } from "./ui";
import { Overview } from "./overview";

type View = ComponentType;
const LATER: Record<string, () => Promise<View>> = {
  schema: () => import("./schema").then((module) => module.Schema),
  browse: () => import("./browse").then((module) => module.Browse),
  explore: () => import("./explore").then((module) => module.Explore),
  query: () => import("./query").then((module) => module.Query),
  history: () => import("./history").then((module) => module.History),
  commit: () => import("./diff").then((module) => module.CommitView),
  diff: () => import("./diff").then((module) => module.DiffView),
  merge: () => import("./merge").then((module) => module.Merge),
  loads: () => import("./loads").then((module) => module.Loads),
  refs: () => import("./refs").then((module) => module.Refs),
  health: () => import("./health").then((module) => module.Health),
};
const loaded = signal<Record<string, View>>({ overview: Overview });

const NAMES: Record<string, string> = { overview: "Overview", schema: "Schema", browse: "Browse", explore: "Explore", query: "Query", history: "History", merge: "Merge", loads: "Loads", refs: "Refs", health: "Health", commit: "Commit", diff: "Diff" };
const GO_KEYS: Record<string, string> = { o: "overview", s: "schema", b: "browse", e: "explore", q: "query", h: "history", m: "merge", l: "loads", r: "refs", c: "health" };

const THEME = "omnigraph.theme";
const darkness = matchMedia("(prefers-color-scheme: dark)");
const theme = signal<"light" | "dark">("light");
function chooseTheme(next?: "light" | "dark"): void {
  if (next) localStorage.setItem(THEME, next);
  const stored = localStorage.getItem(THEME);
  theme.value = stored === "light" || stored === "dark" ? stored : darkness.matches ? "dark" : "light";
  document.documentElement.dataset.theme = theme.value;
}

type Panel = "palette" | "revision" | "requests" | "help" | null;
const panel = signal<Panel>(null);

function Body() {
  const { view } = place.value;
  const [failed, setFailed] = useState("");
  useEffect(() => {
    const load = LATER[view];
    if (!loaded.value[view] && load) load().then((found) => (loaded.value = { ...loaded.value, [view]: found }), () => setFailed(view));
    document.querySelector(".rail [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    document.title = `${NAMES[view] ?? "Studio"} · ${graph.value || "OmniGraph"}`;
  }, [view, graph.value]);
  if (graphs.value.data?.length === 0) return <Empty title="No graph is served">The server has no graph that you may see.</Empty>;
  if (graphs.value.error && !graph.value) return <Problem error={graphs.value.error} />;
  if (catalog.value.error && view !== "refs") {
    return (
      <Problem error={catalog.value.error}>
        <div class="row">
          <Button onClick={readAgain}>Try again</Button>
          {rev.value !== "main" && <a class="button" href={link(view, [], { rev: null, at: null })}>Go to main</a>}
        </div>
      </Problem>
    );
  }
  const Found = loaded.value[view];
  if (Found) return <Found key={graph.value} />;
  if (!LATER[view]) return <Empty title="There is no such view"><a href={link("overview")}>Overview</a></Empty>;
  return failed === view ? <Empty title="This view could not be loaded"><Button onClick={() => location.reload()}>Reload the page</Button></Empty> : <Skeleton lines={8} />;
}

function TokenForm() {
  const [text, setText] = useState("");
  return (
    <form
      class="empty"
      onSubmit={(event) => {
        event.preventDefault();
        setToken(text.trim());
        readAgain();
      }}
    >
      <strong>This server wants a token</strong>
      <p>Open the address that <code>omnigraph serve</code> printed, or paste a token. It is kept for this tab only.</p>
      <label class="field">
        Token
        <input type="password" value={text} onInput={(event) => setText(event.currentTarget.value)} autocomplete="off" />
      </label>
      {token.value && <p role="alert">The server does not know the token of this tab.</p>}
      <Button kind="primary" type="submit">Continue</Button>
    </form>
  );
}

function Bands() {
  const head = refs.value.data?.branches.find((branch) => branch.name === rev.value);
  const isOld = graph.value && commitId.value && !isBranch.value;
  return (
    <div class="bands" aria-live="polite">
      {isOffline.value && <div class="band error">The connection is lost. Reads are tried again until the server answers.</div>}
      {isOld && (
        <div class="band">
          <span>
            {at.value ? `${rev.value} as of ${at.value}` : `${rev.value}`} · commit {shortId(commitId.value)} · read-only
          </span>
          <a class="text-link" href={link(place.value.view, place.value.rest, { rev: null, at: null })}>Back to main</a>
        </div>
      )}
      {moved.value && moved.value !== commitId.value && head && (
        <div class="band">
          <span>{rev.value} moved: this page shows {shortId(commitId.value)}.</span>
          <Button onClick={readAgain}>Refresh</Button>
        </div>
      )}
    </div>
  );
}

function Shell() {
  useKeys((event) => {
    if (event.key === "?") panel.value = "help";
    else if (event.key === "g") wait = Date.now();
    else if (Date.now() - wait < 1200 && GO_KEYS[event.key]) {
      wait = 0;
      go(link(GO_KEYS[event.key]!));
    } else if (event.key === "/") {
      const filter = document.querySelector<HTMLElement>("main [data-filter]");
      if (filter) filter.focus();
      else panel.value = "palette";
    } else return false;
    return true;
  });
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        panel.value = panel.value === "palette" ? null : "palette";
      }
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  const close = () => (panel.value = null);
  const branch = refs.value.data?.branches.find((each) => each.name === rev.value);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the content</a>
      <header class="topbar">
        <a class="brand" href={link("overview")} aria-label="OmniGraph, overview">
          <svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" fill="#23508f" /><path d="M10 22V10M10 16c6 0 12 0 12-5" stroke="#fff" stroke-width="2" fill="none" /><g fill="#fff"><circle cx="10" cy="9" r="3.2" /><circle cx="10" cy="23" r="3.2" /><circle cx="22" cy="10" r="3.2" /></g></svg>
          <span>OmniGraph</span>
        </a>
        {(graphs.value.data?.length ?? 0) > 1 ? (
          <select aria-label="Graph" value={graph.value} onChange={(event) => go(link("overview", [], {}, event.currentTarget.value))}>
            {graphs.value.data!.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        ) : (
          <strong class="ellipsis">{graph.value}</strong>
        )}
        {graph.value && (
          <Button onClick={() => (panel.value = "revision")} aria-haspopup="dialog" title={commitId.value}>
            <Icon name="history" />
            <span class="ellipsis">{shortId(rev.value)}{at.value && ` @ ${at.value}`}</span>
            {branch && <span class="muted small wide">{age(new Date(branch.head.created_at / 1000))}</span>}
          </Button>
        )}
        <span class="spacer" />
        <Button icon="search" onClick={() => (panel.value = "palette")} aria-haspopup="dialog" label="Find Ctrl K"><span class="wide">Find</span> <kbd class="wide">Ctrl K</kbd></Button>
        <Button kind="plain" icon="code" label="Show the request" aria-haspopup="dialog" onClick={() => (panel.value = "requests")} />
        <Button kind="plain" icon="theme" label={theme.value === "dark" ? "Light theme" : "Dark theme"} onClick={() => chooseTheme(theme.value === "dark" ? "light" : "dark")} />
        <Button kind="plain" icon="help" label="Keyboard" aria-haspopup="dialog" onClick={() => (panel.value = "help")} />
      </header>
      <Bands />
      <nav class="rail" aria-label="Views">
        {VIEWS.map((view) => (
          <a key={view} href={link(view)} aria-current={view === place.value.view || (view === "history" && ["commit", "diff"].includes(place.value.view)) ? "page" : undefined}>
            <Icon name={view} />
            {NAMES[view]}
          </a>
        ))}
        <span class="spacer" />
        <span class="who" title="Who the server takes you for">{rights.value ? (rights.value.actor_id ?? "no token needed") : ""}</span>
      </nav>
      <main id="main" tabIndex={-1}>{needsToken.value ? <TokenForm /> : <Body />}</main>
      {panel.value === "palette" && <Palette onClose={close} />}
      {panel.value === "revision" && <RevisionDialog onClose={close} />}
      {panel.value === "requests" && <RequestPanel onClose={close} />}
      {panel.value === "help" && <ShortcutList onClose={close} />}
      <Toast />
    </div>
  );
}
let wait = 0;

takeToken();
startPlace();
startLoading();
chooseTheme();
darkness.addEventListener("change", () => chooseTheme());
const root = document.getElementById("app")!;
root.textContent = "";
render(<Shell />, root);

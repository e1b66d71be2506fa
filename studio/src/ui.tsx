/** The parts that every view is made of. */
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX, RefObject } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError, newKey, write, type Json, type Write } from "./api";
import { age, exactTime, shortId, shown, timeOf } from "./format";
import { asApiError, colourOf, edgeTypes, link, nodeTypes, readAgain, type Loading } from "./state";
import type { Commit, Op } from "./wire";

const ICONS: Record<string, string> = {
  overview: "M3 3h7v8H3zM14 3h7v5h-7zM14 12h7v9h-7zM3 15h7v6H3z",
  schema: "M3 4h7v6H3zM14 14h7v6h-7zM6.5 10v7H14",
  browse: "M3 5h18v14H3zM3 10h18M9 5v14",
  explore: "M6 6m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M18 8m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M10 18m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M8.3 6.5l7.2 1M7 8.3l2.3 7.3M16.5 10l-5 6.2",
  query: "M4 6l5 6-5 6M12 18h8",
  history: "M6 3v18M6 8a6 6 0 0 0 6 6h6M18 14m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M6 5m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0",
  merge: "M6 5v14M6 7c0 7 6 6 12 8M6 5m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M6 19m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M18 15m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0",
  loads: "M12 16V4M7 9l5-5 5 5M4 16v4h16v-4",
  refs: "M4 12V4h8l8 8-8 8zM8.5 8.5h.01",
  health: "M3 12h4l3-7 4 14 3-7h4",
  search: "M10.5 10.5m-6.5 0a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0-13 0M15.5 15.5L21 21",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  close: "M5 5l14 14M19 5L5 19",
  code: "M8 7l-5 5 5 5M16 7l5 5-5 5",
  help: "M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 18h.01",
  load: "M12 16V4M7 9l5-5 5 5M4 20h16",
  mutation: "M4 20l4-1L19 8l-3-3L5 16z",
  optimize: "M4 7h16M7 12h10M10 17h4",
  revert: "M4 9h10a5 5 0 0 1 0 10H8M8 5L4 9l4 4",
  init: "M12 4v16M4 12h16",
};

export function Icon({ name }: { name: string }) {
  return (
    <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={ICONS[name] ?? ICONS.mutation!} />
    </svg>
  );
}

type ButtonProps = Omit<JSX.IntrinsicElements["button"], "class" | "disabled" | "ref"> & {
  kind?: "primary" | "danger" | "plain";
  icon?: string;
  label?: string;
  /** Why it cannot be used; it can still be reached and says so. */
  why?: string;
  inputRef?: RefObject<HTMLButtonElement | null>;
};

export function Button({ kind, icon, label, why, children, inputRef, ...rest }: ButtonProps) {
  const isIcon = icon !== undefined && children === undefined;
  return (
    <button
      type="button"
      {...rest}
      ref={inputRef ?? null}
      class={["button", kind ?? "", isIcon ? "icon" : ""].join(" ")}
      aria-label={label ?? rest["aria-label"]}
      aria-disabled={why ? "true" : undefined}
      title={why || (rest.title ?? (isIcon ? label : undefined))}
      onClick={why ? undefined : rest.onClick}
    >
      {icon && <Icon name={icon} />}
      {children}
      {why && <span class="visually-hidden">: {why}</span>}
    </button>
  );
}

export function TypeName({ name, kind, children }: { name: string; kind?: "node" | "edge"; children?: ComponentChildren }) {
  const isEdge = kind === "edge" || (kind === undefined && !nodeTypes.value.has(name) && edgeTypes.value.has(name));
  return (
    <span class="type">
      <span class={isEdge ? "dot edge" : "dot"} style={isEdge ? {} : { "--dot": colourOf(name) }} aria-hidden="true" />
      <span class="ellipsis">{name}</span>
      {children}
    </span>
  );
}

export const SIGNS: Record<Op, string> = { insert: "+", update: "~", delete: "−" };
export const OP_NAMES: Record<Op, string> = { insert: "added", update: "changed", delete: "removed" };

export const Sign = ({ op }: { op: Op }) => (
  <span class={`sign ${op}`}>
    <span aria-hidden="true">{SIGNS[op]}</span>
    <span class="visually-hidden">{OP_NAMES[op]}</span>
  </span>
);

export const Age = ({ commit }: { commit: Commit }) => {
  const time = timeOf(commit);
  return (
    <time dateTime={time.toISOString()} title={exactTime(time)}>
      {age(time)}
    </time>
  );
};

export const CommitLink = ({ id }: { id: string }) => (
  <a class="mono" href={link("commit", [id])} title={id}>
    {shortId(id)}
  </a>
);

export const Value = ({ value, limit }: { value: Json | undefined; limit?: number }) =>
  value === null || value === undefined ? <span class="null">null</span> : <bdi>{shown(value, limit)}</bdi>;

/** One entity as a link to its row. */
export const EntityLink = ({ type, id }: { type: string; id: string }) => (
  <a href={link("browse", [type], { row: id })}>
    <bdi>{shown(id, 80)}</bdi>
  </a>
);

export function Problem({ error, children }: { error: ApiError; children?: ComponentChildren }) {
  const title = error.isDenied ? "You may not see this" : error.status === 404 ? "Not found" : error.isUnknown ? "The outcome is not known" : "This did not work";
  return (
    <div class="problem" role="alert">
      <strong>{title}</strong>
      <span>{shown(error.message)}</span>
      {error.hint && <span class="small">{shown(error.hint)}</span>}
      {error.requestId && <span class="small mono">request {error.requestId}</span>}
      {children}
    </div>
  );
}

export const Skeleton = ({ lines = 6 }: { lines?: number }) => (
  <div class="skeleton" role="status" aria-label="Loading">
    {Array.from({ length: lines }, (_, at) => (
      <i key={at} style={{ width: `${90 - ((at * 23) % 50)}%` }} />
    ))}
  </div>
);

export const Empty = ({ title, children }: { title: string; children?: ComponentChildren }) => (
  <div class="empty">
    <strong>{title}</strong>
    {children}
  </div>
);

export function Loaded<T>({ load, lines, children }: { load: Loading<T>; lines?: number; children: (data: T) => ComponentChildren }) {
  if (load.error) {
    return (
      <Problem error={load.error}>
        {!load.error.isDenied && (
          <div>
            <Button onClick={readAgain}>Try again</Button>
          </div>
        )}
      </Problem>
    );
  }
  if (load.data === undefined) return <Skeleton lines={lines ?? 6} />;
  return <>{children(load.data)}</>;
}

/** Loads when the keys change, and forgets what is no longer asked for. */
export function useLoad<T>(keys: readonly unknown[], load: (stop: AbortSignal) => Promise<T> | null): Loading<T> {
  const [state, setState] = useState<Loading<T> & { key: string }>({ isLoading: true, key: "" });
  const key = JSON.stringify(keys);
  useEffect(() => {
    const stop = new AbortController();
    const work = load(stop.signal);
    if (!work) return () => stop.abort();
    setState((old) => ({ ...(old.data !== undefined && { data: old.data }), isLoading: true, key: old.key }));
    work.then(
      (data) => !stop.signal.aborted && setState({ data, isLoading: false, key }),
      (error: unknown) => !stop.signal.aborted && setState({ error: asApiError(error), isLoading: false, key }),
    );
    return () => stop.abort();
  }, [key]);
  return state;
}

/** A write that a person starts. After a lost connection the same request can be sent again under its key. */
export function useWrite<T>(onDone: (value: T) => void) {
  const [state, setState] = useState<{ isBusy: boolean; error?: ApiError; last?: Write }>({ isBusy: false });
  const run = async (request: Omit<Write, "key"> & { key?: string }) => {
    const keyed: Write = { ...request, key: request.key ?? newKey() };
    setState({ isBusy: true });
    try {
      const value = await write<T>(keyed);
      setState({ isBusy: false });
      onDone(value);
    } catch (error) {
      setState({ isBusy: false, error: asApiError(error), last: keyed });
    }
  };
  const problem = state.error && (
    <Problem error={state.error}>
      {state.error.isUnknown && state.last && (
        <div>
          <Button onClick={() => void run(state.last!)}>Check whether it was done</Button>
        </div>
      )}
    </Problem>
  );
  return { run, isBusy: state.isBusy, error: state.error, problem, reset: () => setState({ isBusy: false }) };
}

export function Tabs({ names, value, onChange, label }: { names: readonly (readonly [string, string])[]; value: string; onChange: (name: string) => void; label: string }) {
  const keys = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const at = names.findIndex(([name]) => name === value);
    const next = names[(at + step + names.length) % names.length]![0];
    onChange(next);
    const list = event.currentTarget as HTMLElement;
    requestAnimationFrame(() => list.querySelector<HTMLElement>("[aria-selected=true]")?.focus());
    event.preventDefault();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={keys}>
      {names.map(([name, text]) => (
        <button key={name} type="button" role="tab" aria-selected={name === value} tabIndex={name === value ? 0 : -1} onClick={() => onChange(name)}>
          {text}
        </button>
      ))}
    </div>
  );
}

export function Dialog({ title, onClose, children, isTop }: { title: string; onClose: () => void; children: ComponentChildren; isTop?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const dialog = ref.current!;
    const before = document.activeElement as HTMLElement | null;
    dialog.showModal();
    return () => {
      dialog.close();
      before?.focus?.();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class={isTop ? "top" : ""}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === ref.current && onClose()}
    >
      <div class="inside">
        <div class="row">
          <h2 id={id} class="grow">
            {title}
          </h2>
          <Button kind="plain" icon="close" label="Close" onClick={onClose} />
        </div>
        {children}
      </div>
    </dialog>
  );
}

export interface MenuItem {
  text: string;
  why?: string;
  run: () => void;
}

export function MenuButton({ label, icon, items, text }: { label: string; icon?: string; items: MenuItem[]; text?: string }) {
  const [isOpen, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const [spot, setSpot] = useState<Record<string, string>>({});
  useLayoutEffect(() => {
    if (!isOpen || !button.current || !menu.current) return;
    // On the screen, not in its parent: a parent that scrolls would cut it off.
    const at = button.current.getBoundingClientRect();
    const height = menu.current.offsetHeight;
    const top = at.bottom + height + 8 > innerHeight ? Math.max(8, at.top - height - 4) : at.bottom + 4;
    setSpot({ position: "fixed", top: `${top}px`, left: `${Math.max(8, Math.min(at.right - menu.current.offsetWidth, innerWidth - menu.current.offsetWidth - 8))}px` });
  }, [isOpen]);
  useEffect(() => {
    if (!isOpen) return;
    menu.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const close = (event: Event) => !menu.current?.contains(event.target as Node) && event.target !== button.current && setOpen(false);
    addEventListener("pointerdown", close);
    return () => removeEventListener("pointerdown", close);
  }, [isOpen]);
  const keys = (event: KeyboardEvent) => {
    const entries = [...(menu.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = entries.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape" || event.key === "Tab") {
      setOpen(false);
      button.current?.focus();
    } else if (event.key === "ArrowDown") entries[(at + 1) % entries.length]?.focus();
    else if (event.key === "ArrowUp") entries[(at - 1 + entries.length) % entries.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <span class="anchor" onClick={(event) => event.stopPropagation()}>
      <Button inputRef={button} kind={text ? undefined : "plain"} icon={text ? undefined : (icon ?? "more")} label={text ? undefined : label} aria-haspopup="menu" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {text}
      </Button>
      {isOpen && (
        <div class="menu" role="menu" aria-label={label} ref={menu} onKeyDown={keys} style={spot}>
          {items.map((item) => (
            <button
              key={item.text}
              type="button"
              role="menuitem"
              aria-disabled={item.why ? "true" : undefined}
              title={item.why}
              onClick={() => {
                if (item.why) return;
                setOpen(false);
                item.run();
              }}
            >
              {item.text}
            </button>
          ))}
        </div>
      )}
    </span>
  );
}

const toast = signal("");
let toastTimer = 0;
export function say(text: string): void {
  toast.value = text;
  clearTimeout(toastTimer);
  toastTimer = window.setTimeout(() => (toast.value = ""), 4000);
}
export const Toast = () => (
  <div aria-live="polite" role="status">
    {toast.value && <div class="toast">{toast.value}</div>}
  </div>
);

export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    say("The browser does not let this page copy");
  }
}

/** Which rows of a long list are on the screen. Rows have one height; a list too tall for a browser is scaled. */
export function useWindow(total: number, rowHeight: number, frame: RefObject<HTMLElement | null>, headHeight = 0) {
  const [scroll, setScroll] = useState({ top: 0, height: 600 });
  const full = total * rowHeight;
  const height = Math.min(full, 8_000_000);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    let request = 0;
    const update = () => {
      request = 0;
      setScroll({ top: element.scrollTop, height: element.clientHeight });
    };
    const later = () => {
      if (!request) request = requestAnimationFrame(update);
    };
    update();
    element.addEventListener("scroll", later, { passive: true });
    const sizes = new ResizeObserver(later);
    sizes.observe(element);
    return () => {
      element.removeEventListener("scroll", later);
      sizes.disconnect();
      cancelAnimationFrame(request);
    };
  }, [frame.current]);
  const view = Math.max(scroll.height - headHeight, rowHeight);
  const scale = height > view && full > height ? (full - view) / (height - view) : 1;
  const top = scroll.top * scale;
  const first = Math.max(0, Math.floor(top / rowHeight) - 4);
  const last = Math.min(total, Math.ceil((top + view) / rowHeight) + 4);
  const offset = (row: number) => row * rowHeight - top + scroll.top;
  const reveal = (row: number) => {
    const element = frame.current;
    if (!element) return;
    if (row * rowHeight < top) element.scrollTop = (row * rowHeight) / scale;
    else if ((row + 1) * rowHeight > top + view) element.scrollTop = ((row + 1) * rowHeight - view) / scale;
  };
  return { first, last, height, offset, reveal };
}

/** Calls back a moment after the last change. */
export function useLater<T>(value: T, ms: number): T {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), ms);
    return () => clearTimeout(timer);
  }, [JSON.stringify(value)]);
  return late;
}

/** Keys outside of fields. The handler is that of the last rendering: two keys in quick succession find two states. */
export function useKeys(handler: (event: KeyboardEvent) => boolean | void): void {
  const latest = useRef(handler);
  latest.current = handler;
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const target = event.composedPath()[0] as HTMLElement;
      const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable;
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (latest.current(event)) event.preventDefault();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

export const Head = ({ title, text, children }: { title: ComponentChildren; text?: ComponentChildren; children?: ComponentChildren }) => (
  <div class="head">
    <div class="titles">
      <h1>{title}</h1>
      {text && <p>{text}</p>}
    </div>
    {children && <div class="row">{children}</div>}
  </div>
);

export const Card = ({ title, actions, children }: { title: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) => (
  <section class="card">
    <header>
      <h2>{title}</h2>
      <span class="spacer" />
      {actions}
    </header>
    <div class="body">{children}</div>
  </section>
);

export const Properties = ({ of }: { of: Record<string, Json> }) => (
  <dl class="properties">
    {Object.entries(of).flatMap(([name, value]) => [<dt key={`${name}-name`}>{name}</dt>, <dd key={name} tabIndex={isLong(value) ? 0 : undefined}><Value value={value} limit={100_000} /></dd>])}
  </dl>
);
const isLong = (value: Json) => typeof value === "string" && value.length > 400;

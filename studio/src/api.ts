/** Requests to the server: one function for reads, one for writes, and a record of both for "Show the request". */
import { signal } from "@preact/signals";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Fields = Record<string, Json>;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code: string,
    readonly hint: string | undefined,
    readonly requestId: string,
    readonly isUnknown: boolean,
    readonly body: Record<string, unknown>,
  ) {
    super(message);
  }
  get isDenied(): boolean {
    return this.status === 403;
  }
}

export interface Sent {
  method: string;
  path: string;
  body?: Json;
  query?: string;
}

const TOKEN = "omnigraph.token";
export const token = signal<string | null>(null);
export const sent = signal<Sent[]>([]);
export const isOffline = signal(false);
export const needsToken = signal(false);
const MAX_SENT = 40;

/** Takes the token out of the address, where it came with the link, and keeps it for this tab. */
export function takeToken(): void {
  const given = location.hash.match(/^#token=([^&]+)(?:&(.*))?$/);
  if (given) {
    sessionStorage.setItem(TOKEN, decodeURIComponent(given[1]!));
    history.replaceState(null, "", `${location.pathname}#${given[2] ?? "/"}`);
  }
  token.value = sessionStorage.getItem(TOKEN);
}

export function setToken(text: string): void {
  sessionStorage.setItem(TOKEN, text);
  token.value = text;
  needsToken.value = false;
}

type Parameters = Record<string, string | number | boolean | undefined | null | readonly string[]>;

export function pathOf(path: string, parameters: Parameters = {}): string {
  const pairs: string[] = [];
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "") pairs.push(`${name}=${encodeURIComponent(String(each))}`);
    }
  }
  return pairs.length ? `${path}?${pairs.join("&")}` : path;
}

export const graphPath = (graph: string, rest: string): string => `/graphs/${encodeURIComponent(graph)}${rest}`;

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

async function exchange(path: string, options: RequestInit): Promise<Response> {
  const headers = new Headers(options.headers);
  if (token.value) headers.set("Authorization", `Bearer ${token.value}`);
  return fetch(path, { ...options, headers, credentials: "omit", redirect: "error" });
}

async function errorOf(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => ({}))) as Record<string, any>;
  if (response.status === 401) needsToken.value = true;
  const problem = body.problem ?? {};
  return new ApiError(
    response.status,
    String(body.error ?? `the server answered ${response.status}`),
    String(problem.code ?? body.code ?? response.status),
    problem.hint,
    response.headers.get("x-request-id") ?? "",
    problem.outcome === "unknown",
    body,
  );
}

function record(entry: Sent): void {
  const same = (other: Sent) => other.method === entry.method && other.path === entry.path && JSON.stringify(other.body) === JSON.stringify(entry.body);
  sent.value = [...sent.value.filter((other) => !same(other)), entry].slice(-MAX_SENT);
}

/** A read. It is sent again until the server answers: what was lost on the way changed nothing. */
export async function read<T>(path: string, signal?: AbortSignal, body?: Json, accept?: string): Promise<{ value: T; response: Response }> {
  const options: RequestInit = { signal: signal ?? null, headers: accept ? { Accept: accept } : {} };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    options.headers = { ...(options.headers as Record<string, string>), "Content-Type": "application/json" };
  }
  for (let attempt = 0; ; attempt++) {
    let response: Response;
    try {
      response = await exchange(path, options);
    } catch (error) {
      if (signal?.aborted || (error as Error).name === "AbortError") throw error;
      isOffline.value = true;
      await pause(Math.min(500 * 2 ** attempt, 8000));
      if (signal?.aborted) throw error;
      continue;
    }
    isOffline.value = false;
    if (!response.ok) throw await errorOf(response);
    const query = response.headers.get("omnigraph-query");
    record({ method: body === undefined ? "GET" : "POST", path, body, query: query ? decodeURIComponent(query) : undefined });
    const isJson = (response.headers.get("content-type") ?? "").startsWith("application/json");
    return { value: (isJson ? await response.json() : response) as T, response };
  }
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await read<T>(path, signal)).value;
}

export async function ask<T>(path: string, body: Json, signal?: AbortSignal): Promise<T> {
  return (await read<T>(path, signal, body)).value;
}

export interface Write {
  method: "POST" | "DELETE";
  path: string;
  body?: Json;
  form?: FormData;
  message?: string;
  ifMatch?: string;
  /** The same key for the same intention: a write that comes twice is made once. */
  key: string;
}

export const newKey = (): string => crypto.randomUUID();

export async function write<T>(request: Write): Promise<T> {
  const headers: Record<string, string> = { "Idempotency-Key": request.key };
  if (request.message) headers["Omnigraph-Message"] = encodeURIComponent(request.message);
  if (request.ifMatch) headers["If-Match"] = `"${request.ifMatch}"`;
  if (request.body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await exchange(request.path, {
      method: request.method,
      headers,
      body: request.form ?? (request.body === undefined ? null : JSON.stringify(request.body)),
    });
  } catch {
    throw new ApiError(0, "the connection was lost before the server answered", "outcome_unknown", "check whether it was done: the same request is sent again under its key, and is made at most once", "", true, {});
  }
  if (!response.ok) throw await errorOf(response);
  record({ method: request.method, path: request.path, body: request.body });
  return (await response.json()) as T;
}

/** The events of a stream, until the signal ends it. A stream that broke is opened again. */
export async function follow(path: string, signal: AbortSignal, on: (event: string, data: Json) => void): Promise<void> {
  for (let attempt = 0; !signal.aborted; attempt++) {
    try {
      const response = await exchange(path, { signal });
      if (response.status >= 400 && response.status < 500) return;
      if (!response.ok || !response.body) throw new Error(`the server answered ${response.status}`);
      attempt = 0;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const events = (rest + value).split("\n\n");
        rest = events.pop()!;
        for (const event of events) {
          const name = event.match(/^event: (.*)$/m)?.[1];
          const data = event.match(/^data: (.*)$/m)?.[1];
          if (name && data) on(name, JSON.parse(data) as Json);
        }
      }
    } catch {
      if (signal.aborted) return;
    }
    await pause(Math.min(1000 * 2 ** attempt, 15000));
  }
}

/** Saves what a path answers. */
export async function download(path: string, name: string): Promise<void> {
  const response = await exchange(path, {});
  if (!response.ok) throw await errorOf(response);
  saveFile(name, await response.blob());
}

export function saveFile(name: string, data: Blob | string, type = "text/plain"): void {
  const blob = typeof data === "string" ? new Blob([data], { type }) : data;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Values as text. */
import type { Json } from "./api";
import type { Commit } from "./wire";

const counts = new Intl.NumberFormat("en");
export const count = (value: number): string => counts.format(value);
export const plural = (value: number, one: string, many = `${one}s`): string => `${count(value)} ${value === 1 ? one : many}`;

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at++;
  }
  return `${value < 10 && at ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

export const timeOf = (commit: Commit): Date => new Date(commit.created_at / 1000);
export const exactTime = (time: Date): string => time.toISOString().replace("T", " ").slice(0, 19) + " UTC";

export function age(time: Date, now = Date.now()): string {
  const seconds = Math.max(0, (now - time.getTime()) / 1000);
  const units: [number, string][] = [[60, "second"], [60, "minute"], [24, "hour"], [30, "day"], [12, "month"], [Infinity, "year"]];
  let value = seconds;
  for (const [size, name] of units) {
    if (value < size) return name === "second" ? "just now" : `${plural(Math.floor(value), name)} ago`;
    value /= size;
  }
  return "";
}

export const shortId = (id: string): string => (/^[0-9A-HJKMNP-TV-Z]{26}$/.test(id) ? id.slice(-8) : id);

const MAX_SHOWN = 2000;
/** Control characters and the marks that turn the direction of text, as visible signs. */
export function visible(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (letter) => {
    const code = letter.codePointAt(0)!;
    return code < 32 ? String.fromCodePoint(0x2400 + code) : "\u{fffd}";
  });
}

export function shown(value: Json | undefined, limit = MAX_SHOWN): string {
  if (value === null || value === undefined) return "null";
  const text = visible(typeof value === "string" ? value : JSON.stringify(value));
  if (text.length <= limit) return text;
  return limit < 400 ? `${text.slice(0, limit)}…` : `${text.slice(0, limit)}… (${count(text.length)} characters)`;
}

/** A number as JSON carries it: a value of an integer type that a double cannot hold travels as its text. */
export function numberOf(text: string, scalar: string): number | string {
  const value = Number(text);
  return Number.isNaN(value) || (/^[IU]/.test(scalar) && !Number.isSafeInteger(value)) ? text.trim() : value;
}

/** JSON of a list; its items stay the numbers that were typed. */
export const listOf = (text: string, scalar: string): Json =>
  (JSON.parse as (text: string, reviver: (name: string, value: Json, from?: { source?: string }) => Json) => Json)(text, (_, value, from) => (typeof value === "number" && from?.source ? numberOf(from.source, scalar) : value));

export const sameValue = (one: Json | undefined, other: Json | undefined): boolean => JSON.stringify(one ?? null) === JSON.stringify(other ?? null);

/** Words of two texts: kept, added, removed. Long texts are compared by their common ends only. */
export function wordDiff(before: string, after: string): { text: string; op: "same" | "insert" | "delete" }[] {
  const a = before.match(/\s+|[^\s]+/g) ?? [];
  const b = after.match(/\s+|[^\s]+/g) ?? [];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const middleA = a.slice(start, a.length - end);
  const middleB = b.slice(start, b.length - end);
  const parts: { text: string; op: "same" | "insert" | "delete" }[] = [];
  const push = (text: string, op: "same" | "insert" | "delete") => {
    if (!text) return;
    const last = parts.at(-1);
    if (last?.op === op) last.text += text;
    else parts.push({ text, op });
  };
  push(a.slice(0, start).join(""), "same");
  if (middleA.length * middleB.length > 250_000) {
    push(middleA.join(""), "delete");
    push(middleB.join(""), "insert");
  } else {
    const width = middleB.length + 1;
    const lengths = new Uint16Array((middleA.length + 1) * width);
    for (let i = middleA.length - 1; i >= 0; i--) {
      for (let j = middleB.length - 1; j >= 0; j--) {
        lengths[i * width + j] = middleA[i] === middleB[j] ? lengths[(i + 1) * width + j + 1]! + 1 : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
      }
    }
    let i = 0;
    let j = 0;
    while (i < middleA.length || j < middleB.length) {
      if (i < middleA.length && j < middleB.length && middleA[i] === middleB[j]) {
        push(middleA[i++]!, "same");
        j++;
      } else if (j >= middleB.length || (i < middleA.length && lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!)) push(middleA[i++]!, "delete");
      else push(middleB[j++]!, "insert");
    }
  }
  push(a.slice(a.length - end).join(""), "same");
  return parts;
}

export function csv(columns: readonly string[], rows: readonly Record<string, Json>[]): string {
  const cell = (value: Json | undefined) => {
    const text = value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns.map(cell).join(","), ...rows.map((row) => columns.map((name) => cell(row[name])).join(","))].join("\n") + "\n";
}

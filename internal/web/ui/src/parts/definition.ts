import type { Definition } from "../api";
import type { Document } from "./form";
import { isObject } from "./grown";

// A definition is edited in the form of the files that the command line reads: the only leg by
// itself, several by their roles.

type One = { node: string; id?: string; config: Document };

const object = (v: unknown): Document => (isObject(v) ? v : {});
const text = (v: unknown): string => (typeof v === "string" ? v : "");

// written is a definition as a file.
export function written(kind: string, d: Definition): Document {
  const one = ({ node, id, config }: { node: string; id?: string; config: unknown }) => ({ node, ...(id ? { id } : {}), config: object(config) });
  const legs = d.legs ?? [];
  if (legs.length === 1 && legs[0]!.role === kind) return one(legs[0]!);
  return { ...(d.mode ? { mode: d.mode } : {}), ...(d.shared ? { shared: d.shared } : {}), legs: Object.fromEntries(legs.map((l) => [l.role, one(l)])) };
}

// legOf is a leg of a file.
export function legOf(kind: string, doc: Document, role: string): One {
  const l = role === kind ? doc : object(object(doc.legs)[role]);
  return { node: text(l.node), ...(text(l.id) ? { id: text(l.id) } : {}), config: object(l.config) };
}

// withLeg is a file with a leg of it changed.
export function withLeg(kind: string, doc: Document, role: string, change: Partial<One>): Document {
  const { id, ...rest } = { ...legOf(kind, doc, role), ...change };
  const l: Document = { ...rest, ...(id ? { id } : {}) };
  return role === kind ? l : { ...doc, legs: { ...object(doc.legs), [role]: l } };
}

// inMode is a file with the legs that a mode has.
export const inMode = (kind: string, doc: Document, mode: string, roles: string[]): Document => ({ ...doc, mode, legs: Object.fromEntries(roles.map((r) => [r, legOf(kind, doc, r)])) });

// defined is what a file defines.
export function defined(kind: string, doc: Document): Definition {
  const roles = isObject(doc.legs) ? Object.keys(doc.legs) : [kind];
  return { ...(text(doc.mode) ? { mode: text(doc.mode) } : {}), ...(isObject(doc.shared) && Object.keys(doc.shared).length > 0 ? { shared: doc.shared } : {}), legs: roles.map((role) => ({ role, ...legOf(kind, doc, role) })) };
}

// A Place is the part of a definition that a refusal is about; a field is "node", "id", or, in the config,
// its path with dots behind "config."; "" is the leg as a whole.
export interface Place {
  role: string;
  field: string;
}

// placed finds what a refusal is about, or undefined.
export function placed(detail: string, d: Definition): Place | undefined {
  const legs = d.legs ?? [];
  const at = /body\.legs\[(\d+)\]\.?(\w*)/.exec(detail);
  if (at && legs[Number(at[1])]) return { role: legs[Number(at[1])]!.role, field: at[2] ?? "" };
  const port = /port (?:\w+\/)?(\d+)(?:\/\w+)? of node (\S+) is used/.exec(detail);
  const on = legs.find((l) => l.node === (port?.[2] ?? /^node (\S+) has/.exec(detail)?.[1]));
  if (on && port) return { role: on.role, field: below(holding(on.config, port[1]!)) };
  if (on) return { role: on.role, field: detail.includes("another id") ? "id" : "node" };
  const leg = legs.find((l) => detail.includes(`leg ${l.role}: `));
  if (!leg) return undefined;
  const rest = detail.slice(detail.indexOf(`leg ${leg.role}: `) + leg.role.length + 6);
  return { role: leg.role, field: /^(node|id) /.exec(rest)?.[1] ?? below(shown(leg.config, /^field (\S+) /.exec(rest)?.[1] ?? "")) };
}

const below = (path: string) => (path ? `config.${path}` : "");

// holding is the field of a config that has a port, or "".
function holding(config: unknown, port: string): string {
  for (const [name, v] of Object.entries(object(config))) {
    if (isObject(v)) {
      const inner = holding(v, port);
      if (inner) return `${name}.${inner}`;
    } else if (new RegExp(`(^|\\D)${port}$`).test(String(v))) return name;
  }
  return "";
}

// shown is the part of a path that the form has a field for: lists are one.
function shown(config: unknown, path: string): string {
  const steps: string[] = [];
  let v = config;
  for (const s of path.split("/")) {
    if (!isObject(v)) break;
    const name = s.replaceAll("~1", "/").replaceAll("~0", "~");
    v = v[name];
    if (v === undefined) return "";
    steps.push(name);
  }
  return steps.join(".");
}

import { useEffect, useRef, useState } from "preact/hooks";
import type { Schema } from "../api";
import { Exact, numberOf, parse, parsed, stringify } from "../exact";
import { type Problem, call } from "../request";

export type Document = Record<string, unknown>;

const indent = 2;

const json = (v: unknown) => (v === undefined ? "" : stringify(v, indent));

// put is a document with a field set; undefined and what is empty leave it out.
function put(doc: Document | undefined, name: string, value: unknown): Document | undefined {
  const { [name]: _, ...rest } = doc ?? {};
  const all = value === undefined ? rest : { ...doc, [name]: value };
  return Object.keys(all).length > 0 ? all : undefined;
}

// filled is a document without the objects in it that say nothing.
export const filled = (doc: Document) => Object.fromEntries(Object.entries(doc).filter(([, v]) => json(v) !== "{}"));

// idOf is the id of the element for a field in another one: no id has a space.
const idOf = (id: string, name: string) => `${id}-${name.replace(/[^\w-]/g, (c) => `_${c.charCodeAt(0)}`)}`;

const lines = (text: string) => text.split("\n").filter((l) => l !== "");

interface Input {
  id: string;
  label: string;
  schema: Schema;
  value: unknown;
  set: (value: unknown) => void;
  required: boolean;
  names: string[]; // that may be meant
  problems: Problem[]; // of this field and what is in it, by paths from here
}

// within are the problems of a field, by paths from there.
const within = (problems: Problem[], name: string) => problems
  .filter((p) => p.location === name || p.location?.startsWith(name + "."))
  .map((p) => ({ ...p, location: p.location!.slice(name.length + 1) }));

// Form edits a document by its schema: what is required comes first. What is nested too deeply for it
// is text in it. Names are of what a field may name.
export function Form({ schema, doc, set, id, skip = [], names: known = {}, problems }: { schema: Schema; doc: Document; set: (doc: Document) => void; id: string; skip?: string[]; names?: Record<string, string[]>; problems: Problem[] }) {
  const required = schema.required ?? [];
  const names = (schema["x-order"] ?? []).filter((n) => !skip.includes(n)).sort((a, b) => Number(required.includes(b)) - Number(required.includes(a)));
  const [began] = useState(doc); // a field stays where it is while it is typed
  const first = names.filter((n, i) => i < shown || began[n] !== undefined);
  const rest = names.filter((n) => !first.includes(n));
  const more = useOpened(rest.some((n) => within(problems, n).length > 0));
  const field = (n: string) => (
    <Field key={n} id={idOf(id, n)} label={n} schema={schema.properties![n]!} value={doc[n]} set={(v) => set(put(doc, n, v) ?? {})}
      required={required.includes(n)} names={known[n] ?? []} problems={within(problems, n)} />
  );
  return (
    <div class="form">
      {first.map(field)}
      {rest.length > 0 && <details ref={more}><summary>More fields ({rest.length})</summary>{rest.map(field)}</details>}
    </div>
  );
}

// useOpened opens what folds when there is something in it to see. It never closes it: somebody may be
// typing there, and have emptied a field.
function useOpened(see: boolean) {
  const fold = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (see && fold.current) fold.current.open = true;
  }, [see]);
  return fold;
}

const shown = 9; // fields of a form that is new

function Field(f: Input) {
  const { schema: s, value } = f;
  if (s.type === "object" && s.properties) return <Nested {...f} />;
  const hint = [f.required ? "required" : "", s.description, s.type === "array" && isText(s) ? "one a line" : "", mapped(s) ? "NAME=VALUE, one a line" : ""].filter(Boolean).join("; ");
  return (
    <div class="field">
      <label for={f.id}>{f.label}</label>
      {s.type === "boolean" && !s.enum
        ? <input id={f.id} type="checkbox" checked={value === true} onInput={(e) => f.set(e.currentTarget.checked || undefined)} aria-describedby={`${f.id}-hint`} />
        : s.enum
          ? <select id={f.id} value={value === undefined ? "" : String(value)} onChange={(e) => f.set(chosen(s, e.currentTarget.value))} aria-describedby={`${f.id}-hint`}>
              {["", ...s.enum].map((o) => <option key={o} value={o}>{o || "default"}</option>)}
            </select>
          : <Text {...f} />}
      <p id={`${f.id}-hint`} class="dim">{hint}</p>
      <Wrong of={f.problems} />
    </div>
  );
}

const chosen = (s: Schema, text: string) => (text === "" ? undefined : s.type === "boolean" ? text === "true" : read(s, text));

function Wrong({ of }: { of: Problem[] }) {
  return <>{of.map((p, i) => <p key={i} role="alert" class="error">{p.location && <code>{p.location} </code>}{p.message}</p>)}</>;
}

function Nested({ id, label, schema, value, set, problems }: Input) {
  const doc = value as Document | undefined;
  const fold = useOpened(doc !== undefined || problems.length > 0);
  return (
    <details ref={fold} class="nested">
      <summary>{label} {schema.description && <span class="dim">{schema.description}</span>}</summary>
      <Wrong of={problems.filter((p) => !p.location)} />
      {(schema["x-order"] ?? []).map((n) => (
        <Field key={n} id={idOf(id, n)} label={n} schema={schema.properties![n]!} value={doc?.[n]} set={(v) => set(put(doc, n, v))}
          required={false} names={[]} problems={within(problems, n)} />
      ))}
    </details>
  );
}

const isText = (s: Schema) => s.items?.type === "string";
const mapped = (s: Schema) => s.type === "object" && (s.additionalProperties as Schema | undefined)?.type === "string";

// written is a value as a person writes it in one field.
function written(s: Schema, value: unknown): string {
  if (value === undefined) return "";
  if (s.type === "array" && isText(s)) return (value as string[]).join("\n");
  if (mapped(s)) return Object.entries(value as Record<string, string>).map(([k, v]) => `${k}=${v}`).join("\n");
  return typeof value === "string" || typeof value === "number" || value instanceof Exact ? String(value) : json(value);
}

// read is what a text means; it throws why it means nothing.
function read(s: Schema, text: string): unknown {
  if (text.trim() === "") return undefined;
  if (s.type === "string") return text;
  if (s.type === "null") return parsed(text);
  if (s.type === "integer" || s.type === "number") {
    const n = numberOf(text.trim());
    if (n === undefined || s.type === "integer" && !/^-?\d+$/.test(text.trim())) throw new Error(s.type === "integer" ? "expected a whole number" : "expected a number");
    return n;
  }
  if (s.type === "array" && isText(s)) return lines(text);
  if (mapped(s)) {
    return Object.fromEntries(lines(text).map((l) => {
      const at = l.indexOf("=");
      if (at < 1) throw new Error(`${l}: expected NAME=VALUE`);
      return [l.slice(0, at), l.slice(at + 1)];
    }));
  }
  const value = parse(text);
  if (Array.isArray(value) !== (s.type === "array") || typeof value !== "object" || value === null) throw new Error(s.type === "array" ? "expected a list, [ … ]" : "expected an object, { … }");
  return value;
}

// Text is a value that is typed. What cannot be read stays as it is typed, and says so.
function Text({ id, schema, value, set, required, names, problems }: Input) {
  const [text, setText] = useState(written(schema, value));
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    try {
      if (json(read(schema, text)) === json(value)) return;
    } catch {
      return; // it is being typed
    }
    setText(written(schema, value));
  }, [json(value)]);
  const type = (e: Event) => {
    const t = (e.target as HTMLInputElement).value;
    setText(t);
    try {
      set(read(schema, t));
      setWrong("");
    } catch (e) {
      setWrong((e as Error).message);
    }
  };
  const common = {
    id, value: text, onInput: type, placeholder: written(schema, schema.examples?.[0]), "aria-required": required || undefined,
    "aria-describedby": `${id}-hint`, "aria-invalid": wrong || problems.length > 0 ? true : undefined, spellcheck: false,
  };
  const long = !["string", "integer", "number", "null"].includes(schema.type) || id.endsWith("-inline");
  return (
    <>
      {long ? <textarea {...common} rows={Math.min(12, Math.max(2, (text || common.placeholder).split("\n").length))} /> : <input {...common} inputMode={schema.type === "integer" ? "numeric" : "text"} list={names.length > 0 ? `${id}-names` : undefined} />}
      {names.length > 0 && <datalist id={`${id}-names`}>{names.map((n) => <option key={n} value={n} />)}</datalist>}
      {wrong && <p role="alert" class="error">{wrong}</p>}
    </>
  );
}

// pause is how long somebody types before what is typed is read, in milliseconds.
const pause = 150;

// Source is the same document as YAML, which the server reads and writes. What cannot be read stays as it
// is typed, and says where. Of a config of nodes every value is kept.
export function Source({ id, doc, set, typed: began, config, reads = "steady apply reads the same" }: { id: string; config?: boolean; doc: Document; set: (doc: Document) => void; typed: () => void; reads?: string }) {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  const same = useRef<string | undefined>(undefined); // the document that the text is, as JSON
  const reading = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const now = json(doc);
  useEffect(() => {
    if (same.current === now) return;
    let current = true;
    call("convert-yaml", {}, { value: doc, config }).then((c) => {
      if (!current) return;
      same.current = now;
      setWrong("");
      setText(now === "{}" ? "" : c.yaml ?? "");
    }, (e: Error) => current && setWrong(e.message));
    return () => {
      current = false;
    };
  }, [now]);
  const type = (e: Event) => {
    const typed = (e.target as HTMLTextAreaElement).value;
    setText(typed);
    began();
    clearTimeout(reading.current);
    reading.current = setTimeout(() => {
      const read = typed.trim() === "" ? Promise.resolve({ value: {} }) : call("convert-yaml", {}, { yaml: typed, config });
      read.then((c) => {
        setWrong("");
        same.current = json(c.value);
        set(c.value as Document);
      }, (e: Error) => setWrong(e.message));
    }, pause);
  };
  return (
    <div class="field">
      <label for={id}>The same as text (YAML)</label>
      <textarea id={id} value={text} onInput={type} rows={Math.min(30, Math.max(4, text.split("\n").length))} spellcheck={false} aria-describedby={`${id}-hint`} aria-invalid={wrong ? true : undefined} />
      {wrong && <p role="alert" class="error">{wrong}</p>}
      <p id={`${id}-hint`} class="dim">{reads}; JSON is YAML as well</p>
    </div>
  );
}

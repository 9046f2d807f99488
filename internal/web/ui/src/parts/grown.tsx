import { useRef, useState } from "preact/hooks";
import type { Schema } from "../api";
import { Exact, parsed } from "../exact";
import type { Problem } from "../request";
import { type Document, Form } from "./form";

export const isObject = (v: unknown): v is Document => typeof v === "object" && v !== null && !Array.isArray(v) && !(v instanceof Exact);

// grown is a schema of what a value has, where nobody published one.
function grown(value: unknown): Schema {
  if (typeof value === "boolean") return { type: "boolean", enum: ["true", "false"] };
  if (value instanceof Exact) return { type: "number" };
  if (value === null) return { type: "null" };
  if (typeof value === "number" || typeof value === "string") return { type: typeof value };
  if (Array.isArray(value)) return value.length > 0 && value.every((v) => typeof v === "string" && v !== "" && !v.includes("\n")) ? { type: "array", items: { type: "string" } } : { type: "array" };
  if (!isObject(value)) return { type: "string" };
  return { type: "object", "x-order": Object.keys(value), properties: Object.fromEntries(Object.entries(value).map(([n, v]) => [n, grown(v)])) };
}

// joined keeps the fields of a schema that a newer one lacks: a field whose text was removed is
// still there to be filled in.
function joined(was: Schema | undefined, is: Schema): Schema {
  if (!was?.properties || !is.properties) return is;
  const properties = { ...was.properties };
  for (const [n, s] of Object.entries(is.properties)) properties[n] = joined(was.properties[n], s);
  return { ...is, properties, "x-order": Object.keys(properties) };
}

// inside is a document with the field at the end of a path set.
function inside(doc: Document, [name, ...rest]: string[], value: unknown): Document {
  if (rest.length === 0) return { ...doc, [name!]: value };
  const next = doc[name!] ?? {};
  if (!isObject(next)) throw new Error(`${name} has no fields`);
  return { ...doc, [name!]: inside(next, rest, value) };
}

// Grown edits a document as fields, those that it has and what is added. Problems are
// what the server says of fields.
export function Grown({ id, label, doc, set, problems = [] }: { id: string; label: string; doc: Document; set: (doc: Document) => void; problems?: Problem[] }) {
  const schema = useRef<Schema | undefined>(undefined);
  schema.current = joined(schema.current, grown(doc));
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const [error, setError] = useState("");
  const add = (e: Event) => {
    e.preventDefault();
    try {
      set(inside(doc, name.split("."), parsed(value)));
      setName("");
      setValue("");
      setError("");
    } catch (e) {
      setError((e as Error).message);
    }
  };
  return (
    <div role="group" aria-label={label}>
      <Form id={id} schema={schema.current} doc={doc} set={set} problems={problems} />
      <form class="filters" onSubmit={add}>
        <label>Add a field <input required value={name} placeholder="port, or media.codec" onInput={(e) => setName(e.currentTarget.value)} /></label>
        <label>Its value, as JSON or a text <input required value={value} onInput={(e) => setValue(e.currentTarget.value)} /></label>
        <button type="submit">Add</button>
        {error && <p role="alert" class="error">{error}</p>}
      </form>
    </div>
  );
}

import { PAGE } from "./table";
import { go, parameter, withParameters } from "../router";

// Choice is a filter of which one value is chosen; the address has it.
export function Choice({ name, label, any = "any", values }: { name: string; label: string; any?: string; values: string[] }) {
  return (
    <label>{label} <select value={parameter(name)} onChange={(e) => go(withParameters({ [name]: e.currentTarget.value, offset: "" }), true)}>
      <option value="">{any}</option>
      {values.map((v) => <option key={v} value={v}>{v}</option>)}
    </select></label>
  );
}

// Part is a filter by a text; the address has it.
export function Part({ name, label }: { name: string; label: string }) {
  return <label>{label} <input type="search" value={parameter(name)} onInput={(e) => go(withParameters({ [name]: e.currentTarget.value, offset: "" }), true)} /></label>;
}

// cut is the part of a list that the address asks for.
export function cut<T>(rows: T[]): { rows: T[]; total: number; offset: number } {
  const offset = Math.max(0, Math.min(Number(parameter("offset")) || 0, rows.length - 1));
  return { rows: rows.slice(offset, offset + PAGE), total: rows.length, offset };
}

// paged are parameters of the address by which the server filters, sorts and cuts a list.
export const paged = (...names: string[]) => Object.fromEntries([...names, "offset"].map((name) => [name, parameter(name)]));

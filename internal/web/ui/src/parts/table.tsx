import type { ComponentChildren } from "preact";
import { go, parameter, withParameters } from "../router";

export interface Column<T> {
  name: string;
  show: (row: T) => ComponentChildren;
  // sort is the server's word for this order, where it has one.
  sort?: string;
  narrow?: boolean; // is left out where the screen is narrow
}

// Table shows rows. Where a page of a longer list is shown, the server sorts and cuts it.
export function Table<T>({ label, columns, rows, id }: { label: string; columns: Column<T>[]; rows: T[]; id: (row: T) => string }) {
  const sorted = parameter("sort");
  const order = (by: string) => (sorted === by ? "ascending" : sorted === `-${by}` ? "descending" : undefined);
  return (
    <div class="scroll" role="group" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((c) => (c.name === "" ? <td key="" /> : (
              <th key={c.name} scope="col" class={c.narrow ? "narrow" : ""} aria-sort={c.sort ? order(c.sort) ?? "none" : undefined}>
                {c.sort
                  ? <button type="button" onClick={() => go(withParameters({ sort: order(c.sort!) === "ascending" ? `-${c.sort}` : c.sort!, offset: "" }), true)}>{c.name}</button>
                  : c.name}
              </th>
            )))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)}>
              {columns.map((c, i) => i === 0
                ? <th key={c.name} scope="row">{c.show(row)}</th>
                : <td key={c.name} class={c.narrow ? "narrow" : ""}>{c.show(row)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// PAGE is how many rows of a list are shown at a time.
export const PAGE = 50;

// Pager turns the pages of a list.
export function Pager({ total, offset, limit = PAGE }: { total: number; offset: number; limit?: number }) {
  if (total <= limit && offset < total) return <p class="dim">{total} in all</p>;
  const page = (to: number) => withParameters({ offset: to > 0 ? String(to) : "" });
  return (
    <nav class="pager" aria-label="Pages">
      {offset > 0 ? <a href={page(Math.max(0, Math.min(offset, Math.ceil(total / limit) * limit) - limit))} rel="prev">Previous</a> : <span class="dim">Previous</span>}
      <span>{offset < total ? `${offset + 1} to ${Math.min(total, offset + limit)}` : "none"} of {total}</span>
      {offset + limit < total ? <a href={page(offset + limit)} rel="next">Next</a> : <span class="dim">Next</span>}
    </nav>
  );
}

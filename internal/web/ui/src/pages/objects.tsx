import { useState } from "preact/hooks";
import type { ObjectRow } from "../api";
import { Choice, Part, paged } from "../parts/filters";
import { Command, Empty, Loaded } from "../parts/layout";
import { Detail, Push } from "../parts/legs";
import { type Column, Pager, Table } from "../parts/table";
import { Time } from "../parts/time";
import { go } from "../router";
import { may } from "../login";
import { replayed, useAnswer } from "../stream";
import { Is, objectAt, pluralOf, titleOf, useKinds, wordsOf } from "../words";

// ObjectsPage lists the objects of a kind with the push status of each leg, and begins new ones.
export function ObjectsPage({ kind }: { kind: string }) {
  const objects = useAnswer("page-objects", { kind }, paged("search", "status"));
  const kinds = useKinds();
  const is = kinds.find(kind);
  return (
    <>
      <h1>{pluralOf(is)}</h1>
      <nav class="kinds" aria-label="Kinds">
        {kinds.all.map((k) => <a key={k.name} href={`/config/${k.name}`} aria-current={k.name === kind ? "page" : undefined}>{k.command === k.name ? pluralOf(k) : k.name}</a>)}
      </nav>
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <Part name="search" label="Part of its name or a node's" />
        <Choice name="status" label="Push" values={[...wordsOf("legs"), "extraneous"]} />
      </form>
      {may("set-object") && replayed.value === undefined && <Make kind={kind} />}
      <Loaded of={objects}>
        {(p) => p.total === 0
          ? <Empty>No {kind} is like that. Somebody makes one here, or with <Command line={`steady ${is.command} create NAME -f FILE`} /></Empty>
          : <><Table label={pluralOf(is)} columns={columns(is.roles ?? [])} rows={p.items ?? []} id={(o) => (o.local ? `${o.name} on ${o.legs![0]!.node}` : o.name)} /><Pager {...p} /></>}
      </Loaded>
    </>
  );
}

// columns has one for each leg, in the order in which they are pushed.
const columns = (roles: string[]): Column<ObjectRow>[] => [
  { name: "Name", show: (o) => <><a href={objectAt(o)}>{o.name}</a>{o.removed && !o.inBin ? " being deleted" : ""}</> },
  { name: "Status", show: (o) => <Is kind={o.local ? "drift" : "legs"} of={o.summary} /> },
  ...roles.map((role): Column<ObjectRow> => ({
    name: titleOf(roles.length > 1 ? role : "push"),
    show: (o) => (o.legs ?? []).filter((l) => l.role === role).map((l) => <div key={l.role}><Push leg={l} /> <a href={`/nodes/${l.node}`}>{l.node}</a></div>),
  })),
  { name: "Version", show: (o) => o.version || "", narrow: true },
  { name: "Changed", show: (o) => <Time at={o.changedAt} />, narrow: true },
  { name: "Detail", show: (o) => (o.legs ?? []).map((l) => <Detail key={l.role} leg={l} />), narrow: true },
];

// Make asks for the name of a new object; its form is on its own page.
function Make({ kind }: { kind: string }) {
  const [name, setName] = useState("");
  const submit = (e: Event) => {
    e.preventDefault();
    go(`/config/${kind}/${encodeURIComponent(name)}?edit=1`);
  };
  return (
    <details class="make">
      <summary>New {kind}…</summary>
      <form class="filters" onSubmit={submit}>
        <label>Name <input required value={name} pattern="[a-z0-9]([a-z0-9._\-]*[a-z0-9])?" title="small letters, digits, dots and hyphens" onInput={(e) => setName(e.currentTarget.value)} /></label>
        <button type="submit" class="primary">Fill in</button>
      </form>
    </details>
  );
}

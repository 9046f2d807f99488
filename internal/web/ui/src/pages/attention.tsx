import type { Attention } from "../api";
import { Command, Empty, Loaded } from "../parts/layout";
import { type Column, Table } from "../parts/table";
import { Time } from "../parts/time";
import { SessionNav } from "../parts/timeslot";
import { Verb, quoted } from "../parts/verb";
import { useAnswer } from "../stream";
import { Status } from "../words";

// AttentionPage lists what of sessions needs a person, until somebody acknowledges it.
export function AttentionPage() {
  const list = useAnswer("list-attention");
  return (
    <>
      <h1>Attention</h1>
      <SessionNav at="/attention" />
      <p>Sessions that failed, and what could not be cleaned up in time. It stays here until somebody says what was done about it. <Command line="steady attention" /></p>
      <Loaded of={list}>
        {(all) => (all.items ?? []).length === 0 ? <Empty>Nothing of a session needs you.</Empty> : <Table label="Attention" columns={columns} rows={all.items!} id={idOf} />}
      </Loaded>
    </>
  );
}

const idOf = (a: Attention) => `${a.kind}/${a.id}`;

const columns: Column<Attention>[] = [
  { name: "What", show: (a) => <a class="word" href={`/sessions/${a.session}`}>{idOf(a)}</a> },
  { name: "State", show: (a) => <Status kind="parts" word={a.state} /> },
  { name: "Since", show: (a) => <Time at={Date.parse(a.since)} /> },
  { name: "Why", show: (a) => a.reason },
  { name: "Verb", show: (a) => (
    <Verb operation="acknowledge" label="Acknowledge" parts={{ what: idOf(a) }} noReason what="It leaves this list; what is wrong stays as it is."
      fields={[{ name: "note", label: "What was done about it, for the log", required: true }]} body={(g) => ({ kind: a.kind, id: a.id, note: g.note })} line={(g) => `steady attention ack ${idOf(a)} --note ${quoted(g.note || "…")}`} />
  ) },
];

import type { Inbox, InboxItem, Remedy } from "../api";
import { may } from "../login";
import { replayed } from "../stream";
import { counted } from "./amount";
import { Is, type Kind, commandOf } from "../words";
import { Command, Empty } from "./layout";
import { Time } from "./time";
import { Verb, type VerbOf, because, quoted } from "./verb";

// places are the pages of objects, and the part of the reference that has their words.
const places: Record<string, [string, Kind]> = {
  host: ["/hosts/", "hosts"], rollout: ["/rollouts/", "rollouts"], node: ["/nodes/", "nodes"], drift: ["/drift/", "drift"], session: ["/sessions/", "sessions"],
};

// elsewhere are kinds of items that have no page of their own; any other kind is one of objects of nodes.
const elsewhere = ["server", "source", "expiry"];

const placeOf = (kind: string): [string, Kind] | undefined => (Object.hasOwn(places, kind) ? places[kind] : undefined) ?? (elsewhere.includes(kind) ? undefined : [`/config/${kind}/`, "legs"]);

const pageOf = (i: InboxItem) => {
  const place = placeOf(i.kind);
  return place ? place[0] + i.name : "/settings";
};

// deeds are the remedies that a button does; the others are lines for the shell.
const deeds: Record<string, (args: string[]) => Pick<VerbOf, "operation" | "label" | "parts" | "noReason" | "danger">> = {
  "host-retry": ([host = ""]) => ({ operation: "retry-host", label: "Retry", parts: { host } }),
  "host-unfreeze": ([host = ""]) => ({ operation: "unfreeze-host", label: "Unfreeze", parts: { host } }),
  "host-decommission": ([host = ""]) => ({ operation: "decommission-host", label: "Decommission", parts: { host }, danger: true }),
  "quarantine-clear": ([channel = "", bundle = ""]) => ({ operation: "clear-quarantine", label: "Clear", parts: { channel, bundle } }),
  "rollout-resume": ([rollout = ""]) => ({ operation: "operate-rollout", label: "Resume", parts: { rollout, verb: "resume" } }),
  "rollout-cancel": ([rollout = ""]) => ({ operation: "operate-rollout", label: "Cancel", parts: { rollout, verb: "cancel" }, danger: true }),
  "rollout-retry": ([rollout = ""]) => ({ operation: "retry-rollout", label: "Retry", parts: { rollout } }),
  "node-resume": ([node = ""]) => ({ operation: "resume-node", label: "Resume", parts: { node } }),
  "object-push": ([kind = "", name = ""]) => ({ operation: "push-object", label: "Push", parts: { kind, name } }),
  "session-reconcile": ([name = ""]) => ({ operation: "operate-session", label: "Reconcile", parts: { name, verb: "reconcile" }, noReason: true }),
  "session-retry": ([name = "", at = ""]) => ({ operation: "retry-phase", label: "Retry phase", parts: { name, part: at.split("/")[0]!, phase: at.split("/")[1] ?? "" }, noReason: true }),
};

// Step is one remedy: a button where the page can do it, else its line for the shell.
export function Step({ remedy }: { remedy: Remedy }) {
  const line = commandOf(remedy);
  const deed = deeds[remedy.verb]?.(remedy.args ?? []);
  if (deed && may(deed.operation) && replayed.value === undefined) return <Verb {...deed} line={(g) => line + (deed.noReason ? "" : because(g))} />;
  return line ? <Command line={line} /> : null;
}

// Steps are the remedies of a summary, the best first.
export const Steps = ({ of }: { of: Remedy[] | null | undefined }) => <>{(of ?? []).map((r) => <Step key={r.verb + (r.args ?? []).join(" ")} remedy={r} />)}</>;

// ofServer is the part of an inbox that no page of an object has: it is on the page of the server.
export function ofServer(inbox: Inbox): Inbox {
  const items = (inbox.items ?? []).filter((i) => !placeOf(i.kind));
  return { items, needed: items.filter((i) => !i.ack).length };
}

const key = (i: InboxItem) => `${i.kind}/${i.name}`;

function Row({ i }: { i: InboxItem }) {
  return (
    <li>
      <Is of={i} kind={placeOf(i.kind)?.[1] ?? "other"} />
      <a class="word" href={pageOf(i)}>{i.kind} {i.name}</a>
      <span>{i.reason}</span>
      <span class="dim">{i.since ? <>since <Time at={i.since} /></> : null}{i.since && i.who ? ", " : ""}{i.who && `for the ${i.who}`}</span>
      {i.ack && <span>Acknowledged by {i.ack.by} <Time at={i.ack.at} />: {i.ack.note}{i.ack.until ? <>; until <Time at={i.ack.until} /></> : null}</span>}
      <span class="verbs">
        <Steps of={i.next} />
        {!i.ack && (
          <Verb operation="acknowledge" label="Acknowledge" parts={{ what: key(i) }} noReason what="It no longer counts as needing a person; what is wrong stays as it is. Another cause makes it count again."
            fields={[{ name: "note", label: "What is done about it, for the log", required: true }, { name: "hours", label: "For so many hours (empty: as long as the cause stays the same)", type: "number" }]}
            body={(g) => ({ kind: i.kind, name: i.name, note: g.note, ...(g.hours ? { until: Date.now() + Math.round(Number(g.hours) * 3_600_000) } : {}) })}
            line={(g) => `steady attention ack ${quoted(key(i))} --note ${quoted(g.note || "…")}${g.hours ? ` --for ${g.hours}h` : ""}`} />
        )}
      </span>
    </li>
  );
}

// InboxList is what needs a person, the worst first; what a person acknowledged is behind its count.
export function InboxList({ inbox, most }: { inbox: Inbox; most?: number }) {
  const all = inbox.items ?? [];
  const open = all.filter((i) => !i.ack).slice(0, most);
  const known = all.filter((i) => i.ack);
  return (
    <>
      {inbox.needed === 0 ? <Empty>Nothing needs you.</Empty> : <ul class="lines inbox">{open.map((i) => <Row key={key(i)} i={i} />)}</ul>}
      {inbox.needed > open.length && <p><a href="/attention">{counted(inbox.needed - open.length, "more item")}</a></p>}
      {known.length > 0 && (
        <details>
          <summary>{counted(known.length, "acknowledged item")}</summary>
          <ul class="lines inbox">{known.map((i) => <Row key={key(i)} i={i} />)}</ul>
        </details>
      )}
    </>
  );
}

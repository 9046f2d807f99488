import { signal } from "@preact/signals";
import type { Kind as ObjectKind, KindRow, Meaning, ObjectRow, Reference, Remedy, RemedyCommand, Summary } from "./api";
import { call } from "./request";
import { useAnswer } from "./stream";

// Kind is what a status word is said of: a part of the server's reference.
export type Kind = Exclude<keyof Reference, "eventTypes" | "policyFields" | "kinds" | "remedies"> | "other";

// eventTypes are those of the log's records, in order.
export const eventTypes = signal<string[]>([]);

// policyFields are those of a policy that a rerun can have otherwise.
export const policyFields = signal<string[]>([]);

// pluralOf is the heading of a list of objects: drivers have words of their own, of which nobody knows the plural.
export const pluralOf = (kind: KindRow) => (kind.command === kind.name ? `${titleOf(kind.name)}s` : `Objects of kind ${kind.name}`);

// everyKind are the kinds that every fleet has.
const everyKind = signal<ObjectKind[]>([]);

// unlisted is a kind that the list does not have: it is not here yet, or no node has objects of the kind.
function unlisted(name: string): KindRow {
  const known = everyKind.value.find((k) => k.name === name);
  return { name, command: known ? name : `object --kind ${name}`, roles: known?.roles ?? [name], modes: known?.modes ?? [{ name: "", roles: [name] }], nodes: 0, objects: 0 };
}

// useKinds lists the kinds of objects that nodes have, and finds one.
export function useKinds() {
  const all = useAnswer("list-kinds").value?.items ?? everyKind.value.map((k) => unlisted(k.name));
  return { all, find: (name: string) => all.find((k) => k.name === name) ?? unlisted(name) };
}

// titleOf is a word as a heading begins with it.
export const titleOf = (word: string) => word.slice(0, 1).toUpperCase() + word.slice(1);

const spelled = signal<Map<string, RemedyCommand>>(new Map());

// commandOf is the command line of a remedy, "" where the server spells none.
export const commandOf = (r: Remedy) => (spelled.value.get(r.verb)?.command ?? "").replace(/\{(\d)\}/g, (_, n: string) => r.args?.[Number(n)] ?? "");

const reference = signal<Map<string, Meaning>>(new Map());

// wordsOf lists the words of a kind, in the server's order.
export const wordsOf = (kind: Kind) => [...reference.value.keys()].filter((k) => k.startsWith(`${kind} `)).map((k) => k.slice(kind.length + 1));

// learn asks the server what every status word means.
export async function learn(): Promise<void> {
  const { eventTypes: types, policyFields: fields, kinds, remedies, ...answer }: Partial<Reference> = await call("reference").catch(() => ({}));
  eventTypes.value = types ?? [];
  policyFields.value = fields ?? [];
  everyKind.value = kinds ?? [];
  spelled.value = new Map((remedies ?? []).map((r) => [r.verb, r]));
  reference.value = new Map(Object.entries(answer).flatMap(([kind, list]) => ((list ?? []) as Meaning[]).map((m) => [`${kind} ${m.word}`, m])));
}

// Tone is how good a state is. It is shown by colour and by shape.
export type Tone = "good" | "busy" | "wait" | "warn" | "bad" | "away" | "none";

const tones: Record<Tone, string[]> = {
  good: ["converged", "done", "terminal", "promoted", "online", "healthy", "ready", "running", "succeeded", "finished", "accepted", "unchanged", "passed", "ok", "at-target", "pushed", "in-effect"],
  busy: ["offered", "granted", "claimed", "preparing", "prepared", "activating", "soaking", "reverting", "progressing", "converging", "opening", "open", "active", "building", "deploying", "starting", "stopping", "snapshotting", "removing", "pulling", "in-flight", "busy", "applying", "comparing", "pushing", "acting", "verifying", "provisioning", "deleting"],
  wait: ["pending", "queued", "closed", "waiting", "deferred", "paused", "frozen", "holds", "never-enrolled", "notReached", "stopped", "deployment-pending", "not-registered", "scheduled"],
  warn: ["behind", "failing", "degraded", "forced", "drifted", "reverted", "cancelled", "superseded", "parked", "leaving", "skipped", "unknown", "soon", "ahead", "overdue", "extraneous", "mismatched", "retrying"],
  bad: ["failed", "error", "revert-failed", "stuck", "quarantined", "revoked", "forked", "halted", "unhealthy", "missing", "ended", "refused", "conflict", "orphaned"],
  away: ["offline", "silent", "decommissioned", "undeclared", "over", "pruned", "removed", "absent", "retired", "in-the-bin", "deleted"],
  none: [],
};

export const glyphs: Record<Tone, string> = { good: "●", busy: "◐", wait: "○", warn: "▲", bad: "✖", away: "◌", none: "·" };

const toneByWord = new Map(Object.entries(tones).flatMap(([tone, list]) => list.map((w) => [w, tone as Tone])));

export const toneOf = (word: string): Tone => toneByWord.get(word) ?? toneByWord.get(word.toLowerCase().replaceAll(" ", "-")) ?? "none";

const levels: Record<string, Tone> = { ok: "good", waiting: "wait", busy: "busy", away: "away", warning: "warn", critical: "bad" };

// Is is the word of a summary, in the tone of its level.
export const Is = ({ of, kind }: { of: Pick<Summary, "word" | "level">; kind: Kind }) => <Status word={of.word} kind={kind} tone={levels[of.level] ?? "none"} />;

// Status is a status word with its shape and colour. Its meaning and next step are in a tip,
// for the pointer, the keyboard and screen readers.
export function Status({ word, kind, tone = toneOf(word), children }: { word: string; kind: Kind; tone?: Tone; children?: preact.ComponentChildren }) {
  if (!word) return null;
  const meaning = reference.value.get(`${kind} ${word}`);
  const text = (
    <>
      {tone !== "none" && <span class="glyph" aria-hidden="true">{glyphs[tone]}</span>}
      {children ?? word}
    </>
  );
  if (!meaning) return <span class={`status ${tone}`}>{text}</span>;
  return (
    <span class="tip-anchor">
      <button type="button" class={`status ${tone}`}>{text}</button>
      <span class="tip" role="note">
        {meaning.means}
        {meaning.next && <><br /><b>Next:</b> {meaning.next}</>}
      </span>
    </span>
  );
}

// objectAt is the page of an object; of one that the server does not know, where that is decided about.
export function objectAt(o: ObjectRow): string {
  const l = o.legs?.[0];
  if (!o.local || !l) return `/config/${o.kind}/${o.name}`;
  return l.episode ? `/drift/${l.episode}` : `/nodes/${l.node}`;
}

import { signal } from "@preact/signals";
import { request } from "./request";

// A Word is a status word with what it means and what to do, as the server defines it.
export interface Word {
  kind: string;
  word: string;
  meaning: string;
  next?: string;
}

export const words = signal<Word[]>([]);

export async function learn(): Promise<void> {
  const answer = await request<{ words: Word[] }>("GET", "/v1/operator/reference").catch(() => undefined);
  words.value = answer?.words ?? [];
}

// Tone is how good a state is. It is shown by colour and by shape.
export type Tone = "good" | "busy" | "wait" | "warn" | "bad" | "away" | "none";

const tones: Record<Tone, string[]> = {
  good: ["converged", "terminal", "promoted", "online", "healthy", "ready", "running", "succeeded", "finished", "stopped", "accepted", "unchanged", "passed"],
  busy: ["offered", "granted", "claimed", "preparing", "prepared", "activating", "soaking", "reverting", "progressing", "open", "building", "deploying", "starting", "stopping", "snapshotting", "removing", "rolling-out", "active"],
  wait: ["pending", "queued", "closed", "waiting", "deferred", "paused", "frozen", "holds", "never-enrolled", "not-reached", "notReached"],
  warn: ["degraded", "forced", "drifted", "reverted", "cancelled", "superseded", "parked", "leaving", "skipped", "unknown"],
  bad: ["failed", "error", "stuck", "quarantined", "revoked", "forked", "halted", "unhealthy", "missing"],
  away: ["offline", "silent", "decommissioned", "undeclared", "over", "pruned", "removed", "unsupervised"],
  none: [],
};

export const glyphs: Record<Tone, string> = { good: "●", busy: "◐", wait: "○", warn: "▲", bad: "✖", away: "◌", none: "·" };

const toneByWord = new Map(Object.entries(tones).flatMap(([tone, list]) => list.map((w) => [w, tone as Tone])));

export const toneOf = (word: string): Tone => toneByWord.get(word.toLowerCase().replaceAll(" ", "-")) ?? "none";

// Status is a status word with its shape and colour. Its definition and next step are in
// a popover, for the pointer, the keyboard and screen readers.
export function Status({ word, kind, of }: { word: string; kind: string; of?: string | number }) {
  if (!word) return null;
  const tone = toneOf(word);
  const def = words.value.find((w) => w.word === word && w.kind === kind) ?? words.value.find((w) => w.word === word);
  const text = (
    <>
      <span class="glyph" aria-hidden="true">{glyphs[tone]}</span>
      {word}
      {of !== undefined && <span class="of"> {of}</span>}
    </>
  );
  if (!def) return <span class={`status ${tone}`}>{text}</span>;
  return (
    <span class="tip-anchor">
      <button type="button" class={`status ${tone}`}>{text}</button>
      <span class="tip" role="note">
        {def.meaning}
        {def.next && <><br /><b>Next:</b> {def.next}</>}
      </span>
    </span>
  );
}

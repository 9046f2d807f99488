import { useEffect, useState } from "preact/hooks";
import type { Event, NewRerun } from "../api";
import { may } from "../login";
import { call } from "../request";
import { type Change, asksWhatIf, changes as names, keep, parameter, parameters, url } from "../router";
import { policyFields } from "../words";
import { Played } from "./forecast";
import { Command, Copy, Empty } from "./layout";
import { quoted } from "./verb";
import { Compared, type Found } from "./compared";

// kinds are the changes of a rerun.
const kinds: Record<Change, { label: string; said: (c: string) => string }> = {
  drop: { label: "An event had not come", said: (c: string) => `What if event ${c} had not come?` },
  delay: { label: "An event had come later", said: (c: string) => `What if event ${c.split("=")[0]} had come ${c.split("=")[1]} later?` },
  policy: { label: "Another policy", said: (c: string) => `What if the policy were ${c}?` },
  budget: { label: "Another budget", said: (c: string) => `What if the budget were ${c}?` },
};
type Changes = Record<Change, string[]>;

const asked = (): Changes => Object.fromEntries(names.map((k) => [k, parameters(k)])) as Changes;
const edits = (c: Changes) => c.policy.length + c.budget.length > 0;

// body is what the API is asked, and line what asks the same.
const body = (c: Changes, after: string, record: string): NewRerun => ({
  ...c,
  drop: c.drop.map(Number),
  ...(edits(c) && after ? { from: Number(after) } : {}),
  ...(record ? { record: Number(record) } : {}),
});
const line = (c: Changes, after: string) =>
  ["steady replay", ...names.flatMap((k) => c[k].map((v) => `--${k} ${quoted(v)}`)), ...(edits(c) && after ? [`--seq ${after}`] : [])].join(" ");

// WhatIf plays the log again with something changed, and shows what would have come of it. The
// address has all of it.
export function WhatIf({ at }: { at: number }) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const changes = asked();
  const after = parameter("after");
  const id = parameter("rerun");
  const play = async (c: Changes, after: string, record = "") => {
    setBusy(true);
    setError("");
    try {
      const f = await call("create-rerun", {}, body(c, after, record));
      keep({ ...c, after: edits(c) ? after : "", record: String(f.record), rerun: f.id });
    } catch (e) {
      setError((e as Error).message);
    } finally {
      setBusy(false);
    }
  };
  const without = (k: Change, v: string) => {
    const left = { ...changes, [k]: changes[k].filter((x) => x !== v) };
    keep({ ...left, after: edits(left) ? after : "", record: "", rerun: "" });
  };
  return (
    <div class="whatif">
      {may("create-rerun")
        ? <Choose at={at} busy={busy} add={(k, v, after) => play({ ...changes, [k]: [...changes[k], v] }, after)} />
        : <Empty>To play the log again needs the role releaser; who has it can send the link to what came of it.</Empty>}
      {error && <p role="alert" class="error">{error}</p>}
      {asksWhatIf() && (
        <>
          <ul class="changes" aria-label="Changes">
            {names.flatMap((k) => changes[k].map((v) => (
              <li key={k + v}>
                <b>{kinds[k].said(v)}</b>{" "}
                {may("create-rerun") && <button type="button" onClick={() => without(k, v)} aria-label={`Remove: ${kinds[k].said(v)}`}>Remove</button>}
              </li>
            )))}
            {edits(changes) && <li class="dim">{after ? `from after record ${after} on` : "from the beginning of the log on"}</li>}
          </ul>
          <p class="same">The same from the shell: <Command line={line(changes, after)} /></p>
          {id && <p class="same">To share: <a href={location.origin + url.value}>the address of what is shown here</a> <Copy text={location.origin + url.value} /></p>}
          {may("create-rerun") && <button type="button" disabled={busy} onClick={() => play(changes, after, parameter("record"))}>Play the log again</button>}
          {id && <Played<Found> key={id} id={id} of="inputs of the log">{(found) => <Compared found={found} record={Number(parameter("record"))} />}</Played>}
        </>
      )}
    </div>
  );
}

const seen = 100; // records before the moment, of which one can be changed

// Choose is the form of a change.
function Choose({ at, busy, add }: { at: number; busy: boolean; add: (kind: Change, value: string, after: string) => void }) {
  const [kind, setKind] = useState<Change>("drop");
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const given = new FormData(e.target as HTMLFormElement);
    const text = (name: string) => String(given.get(name) ?? "").trim();
    const value = {
      drop: () => text("event"),
      delay: () => `${text("event")}=${text("by")}`,
      policy: () => `${text("channel") && `${text("channel")}:`}${text("field")}=${text("value")}`,
      budget: () => `${text("selector")}=${text("most")}`,
    }[kind]();
    add(kind, value, given.has("after") ? String(at) : "");
  };
  return (
    <form class="filters" onSubmit={submit}>
      <label>What if <select value={kind} onChange={(e) => setKind(e.currentTarget.value as Change)}>
        {names.map((k) => <option key={k} value={k}>{kinds[k].label}</option>)}
      </select></label>
      {kind === "drop" || kind === "delay" ? <EventField at={at} kind={kind} /> : <EditFields kind={kind} />}
      {kind === "policy" || kind === "budget" ? <label class="check"><input type="checkbox" name="after" /> only after record {at}</label> : null}
      <button type="submit" class="primary" disabled={busy}>Try it</button>
    </form>
  );
}

function EventField({ at, kind }: { at: number; kind: "drop" | "delay" }) {
  const [events, setEvents] = useState<Event[]>([]);
  useEffect(() => {
    let current = true;
    call("list-events", {}, undefined, { tail: "true", at: String(at), limit: String(seen) })
      .then((p) => current && setEvents((p.events ?? []).reverse()), () => current && setEvents([]));
    return () => {
      current = false;
    };
  }, [at]);
  const list = events.filter((e) => e.whatIf?.includes(kind));
  return (
    <>
      <label>Event, the last before the moment first <select name="event" required>
        {list.map((e) => <option key={e.seq} value={e.seq}>{e.seq} {e.type}{e.subject?.kind ? ` ${e.subject.kind}/${e.subject.name}` : ""}</option>)}
      </select></label>
      {kind === "delay" && <label>Later by <input name="by" required placeholder="10m" size={6} /></label>}
    </>
  );
}

// EditFields offers the channels and budgets that rollouts of the log have.
function EditFields({ kind }: { kind: "policy" | "budget" }) {
  const [known, setKnown] = useState<{ channels: string[]; selectors: string[] }>({ channels: [], selectors: [] });
  useEffect(() => {
    const read = async () => {
      const rollouts = (await call("list-rollouts")) ?? [];
      const channels = [...new Set(rollouts.map((r) => r.channel))];
      const newest = channels.map((c) => rollouts.find((r) => r.channel === c)!.name);
      const details = await Promise.all(newest.map((rollout) => call("show-rollout", { rollout }, undefined, { members: "none" })));
      return { channels, selectors: [...new Set(details.flatMap((d) => d.budgets ?? []).map((b) => b.selector))] };
    };
    read().then(setKnown, () => undefined);
  }, []);
  return kind === "policy" ? (
    <>
      <label>Channel <select name="channel"><option value="">every channel</option>{known.channels.map((c) => <option key={c} value={c}>{c}</option>)}</select></label>
      <label>Field <select name="field">{policyFields.value.map((f) => <option key={f} value={f}>{f}</option>)}</select></label>
      <label>Is <input name="value" required placeholder="0, 5m, halt" size={10} /></label>
    </>
  ) : (
    <>
      <label>Budget <select name="selector" required>{known.selectors.map((s) => <option key={s} value={s}>{s}</option>)}</select></label>
      <label>Hosts at a time <input name="most" required inputMode="numeric" pattern="[1-9][0-9]*" size={4} /></label>
    </>
  );
}

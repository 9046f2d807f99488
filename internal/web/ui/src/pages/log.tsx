import { useState } from "preact/hooks";
import type { EventPage } from "../api";
import { Chain } from "../parts/chain";
import { Record } from "../parts/events";
import { Command, Empty, Loaded } from "../parts/layout";
import { type Query, call } from "../request";
import { go, parameter, withParameters } from "../router";
import { replay, replayed, useAnswer } from "../stream";
import { eventTypes } from "../words";

const filters = ["about", "type", "actor", "from", "until"] as const;

// LogPage is the log: every decision and every report, newest first.
export function LogPage() {
  const asked = Object.fromEntries(filters.map((name) => [name, parameter(name)]));
  // Another filter is another list.
  return <Log key={JSON.stringify(asked)} asked={asked} />;
}

function Log({ asked }: { asked: Record<string, string> }) {
  const query: Query = { ...asked, tail: "true", limit: "100" };
  const page = useAnswer("list-events", {}, query);
  const [older, setOlder] = useState<EventPage[]>([]);
  const [error, setError] = useState("");
  const known = new Map([page.value, ...older].flatMap((p) => p?.events ?? []).map((e) => [e.seq, e]));
  const events = [...known.values()].sort((a, b) => b.seq - a.seq);
  const earlier = (older.at(-1) ?? page.value)?.earlier;
  const more = () => call("list-events", {}, undefined, { ...query, at: String(earlier) })
    .then((p) => setOlder([...older, p]), (e: Error) => setError(e.message));
  return (
    <>
      <h1>Log</h1>
      <Filters asked={asked} />
      {replayed.value === undefined && <Chain />}
      <div class="verbs">
        <a href="/v1/operator/history" download="history.jsonl">Export</a>
        <Command line="steady audit export fleet.log" />
        {replayed.value === undefined && <button type="button" onClick={() => replay(page.seq)}>Replay…</button>}
      </div>
      <Loaded of={page}>
        {() => (
          <>
            {events.length === 0
              ? <Empty>{earlier ? `None of the records after ${earlier} is like that.` : "No record is like that."}</Empty>
              : <ol class="events" reversed>{events.map((e) => <Record key={e.seq} e={e} />)}</ol>}
            {error && <p role="alert" class="error">{error}</p>}
            {earlier ? <button type="button" onClick={more}>Older</button> : null}
          </>
        )}
      </Loaded>
    </>
  );
}

// Instants of a form are on the clock of UTC, as all times of the page are.
const toForm = (ms: string) => (ms ? new Date(Number(ms)).toISOString().slice(0, 16) : "");
const fromForm = (text: string) => (text ? String(Date.parse(`${text}Z`)) : "");

function Filters({ asked }: { asked: Record<string, string> }) {
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const given = Object.fromEntries([...new FormData(e.target as HTMLFormElement)].map(([k, v]) => [k, String(v).trim()]));
    go(withParameters({ ...given, from: fromForm(given.from ?? ""), until: fromForm(given.until ?? "") }));
  };
  const groups = [...new Set(eventTypes.value.map((t) => t.split(".")[0]!))];
  return (
    <form class="filters" role="search" onSubmit={submit}>
      <label>About <input name="about" defaultValue={asked.about} placeholder="host/edge-1 or rollout/stable@r2" /></label>
      <label>Type <select name="type">
        <option value="">any</option>
        {groups.map((group) => (
          <optgroup key={group} label={group}>
            {[`${group}.*`, ...eventTypes.value.filter((t) => t.startsWith(`${group}.`))].map((t) => <option key={t} value={t} selected={t === asked.type}>{t}</option>)}
          </optgroup>
        ))}
      </select></label>
      <label>Decided by <input name="actor" defaultValue={asked.actor} placeholder="ann" /></label>
      <label>From (UTC) <input name="from" type="datetime-local" defaultValue={toForm(asked.from!)} /></label>
      <label>Until (UTC) <input name="until" type="datetime-local" defaultValue={toForm(asked.until!)} /></label>
      <button type="submit">Show</button>
    </form>
  );
}

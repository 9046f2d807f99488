import { useEffect, useState } from "preact/hooks";
import type { Event } from "../api";
import { stringify } from "../exact";
import { call } from "../request";
import { withParameters } from "../router";
import { useAnswer } from "../stream";
import { Empty, Loaded } from "./layout";
import { Time } from "./time";

// Record is one record of the log, with all that it says behind a click.
export function Record({ e }: { e: Event }) {
  const [open, setOpen] = useState(false);
  const about = e.subject?.kind ? `${e.subject.kind}/${e.subject.name}` : "";
  return (
    <li class={loud.test(e.type) ? "loud" : ""}>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}><span class="mono">{e.seq}</span> {e.type}</button>
      <span>{about}</span>
      <span>{e.message}</span>
      <Time at={e.received ?? e.at} />
      {open && <Links e={e} />}
      {open && <pre tabIndex={0}>{stringify(e.body, 2)}</pre>}
    </li>
  );
}

// Links are the record's hash and that of the one before, which it covers.
function Links({ e }: { e: Event }) {
  const [before, setBefore] = useState("");
  useEffect(() => {
    if (e.seq < 2) return setBefore("the beginning of the log");
    call("list-events", {}, undefined, { tail: "true", at: String(e.seq - 1), limit: "1" })
      .then((p) => setBefore(p.events?.at(-1)?.hash ?? "a record that was pruned"), (x: Error) => setBefore(x.message));
  }, [e.seq]);
  return (
    <dl class="facts">
      <dt>Hash</dt><dd class="mono">{e.hash}</dd>
      <dt>Follows</dt><dd class="mono">{before}</dd>
      <dt>Replay</dt><dd><a href={withParameters({ at: String(e.seq) })}>The fleet with this record</a></dd>
    </dl>
  );
}

// loud are the events that always catch the eye.
const loud = /fail|halt|refus|revok|quarantin|fork|revert|diverg|parked/;

// Events are the last records about something, newest first.
export function Events({ about, limit }: { about: string; limit: number }) {
  const page = useAnswer("list-events", {}, { about, tail: "true", limit: String(limit) });
  return (
    <Loaded of={page}>
      {(p) => (p.events ?? []).length === 0 ? <Empty>Nothing yet.</Empty> : <ol class="events">{[...p.events!].reverse().map((e) => <Record key={e.seq} e={e} />)}</ol>}
    </Loaded>
  );
}

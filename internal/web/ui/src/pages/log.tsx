import { useState } from "preact/hooks";
import type { EventPage } from "../api";
import { Record } from "../parts/events";
import { Empty, Loaded } from "../parts/layout";
import { call } from "../request";
import { go, parameter, withParameters } from "../router";
import { replayed, useAnswer } from "../stream";

const PAGE = 100;

// LogPage is the log: every decision and every report, newest first.
export function LogPage() {
  const about = parameter("about");
  const page = useAnswer("list-events", {}, { about, tail: "true", limit: String(PAGE) });
  const [given, setGiven] = useState(about);
  const [older, setOlder] = useState<EventPage["events"]>([]);
  const events = [...(page.value?.events ?? [])].reverse();
  const more = async () => {
    const first = (older!.length > 0 ? older!.at(-1)! : events.at(-1)!).seq;
    const before = Math.max(0, first - PAGE - 1);
    const got = await call("list-events", {}, undefined, { after: String(before), limit: String(PAGE), ...(about ? { about } : {}) });
    setOlder([...older!, ...(got.events ?? []).filter((e) => e.seq < first).reverse()]);
  };
  return (
    <>
      <h1>Log</h1>
      <form class="filters" role="search" onSubmit={(e) => { e.preventDefault(); setOlder([]); go(withParameters({ about: given })); }}>
        <label>About <input value={given} placeholder="host/edge-1 or rollout/stable@r2" onInput={(e) => setGiven(e.currentTarget.value)} /></label>
        <button type="submit">Show</button>
        <a href="/v1/operator/history" download="history.jsonl">Export</a>
        {replayed.value === undefined && <button type="button" onClick={() => { replayed.value = page.seq; }}>Replay…</button>}
      </form>
      <Loaded of={page}>
        {() => events.length === 0
          ? <Empty>No record is about that.</Empty>
          : (
            <>
              <ol class="events" reversed>{[...events, ...older!].map((e) => <Record key={e.seq} e={e} />)}</ol>
              {events.length >= PAGE && <button type="button" onClick={more}>Older</button>}
            </>
          )}
      </Loaded>
    </>
  );
}

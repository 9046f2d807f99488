import { useEffect, useState } from "preact/hooks";
import type { Mark, Timeline } from "../api";
import { call } from "../request";
import { replayed } from "../stream";
import { Command } from "./layout";
import { Time } from "./time";

// ReplayBar moves the whole page through the log. Its marks are the events that matter, at
// even distances: hours in which nothing happened take no room.
export function ReplayBar() {
  const at = replayed.value;
  const [marks, setMarks] = useState<Timeline>();
  useEffect(() => {
    if (at === undefined) return;
    call("history-marks").then(setMarks, () => setMarks(undefined));
  }, [at === undefined]);
  if (at === undefined) return null;
  const list = marks?.marks ?? [];
  const nearest = list.findLastIndex((m) => m.seq <= at);
  const step = (to: number) => {
    const m = list[Math.max(0, Math.min(list.length - 1, to))];
    if (m) replayed.value = m.seq;
  };
  const mark = list[nearest];
  return (
    <div class="replay" role="region" aria-label="Replay">
      <button type="button" onClick={() => step(nearest - 1)} aria-label="Event before">◀</button>
      <input type="range" aria-label="Moment of the log" aria-valuetext={mark ? `record ${at}, ${mark.type} ${about(mark)}` : `record ${at}`}
        min={0} max={Math.max(0, list.length - 1)} value={Math.max(0, nearest)} onInput={(e) => step(Number(e.currentTarget.value))} />
      <button type="button" onClick={() => step(nearest + 1)} aria-label="Next event">▶</button>
      <p>
        Record {at} of {marks?.last.seq ?? "…"}{mark && <>: <b>{mark.type}</b> {about(mark)} <Time at={mark.at} /></>}
      </p>
      <span>What if it had gone otherwise: <Command line={`steady replay --drop ${at}`} /></span>
      <button type="button" onClick={() => (replayed.value = undefined)}>Back to now</button>
    </div>
  );
}

// about is what a mark is about, as the log's page asks for it.
const about = (m: Mark) => (m.subject?.kind ? `${m.subject.kind}/${m.subject.name}` : "");

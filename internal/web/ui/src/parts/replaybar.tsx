import { useEffect, useState } from "preact/hooks";
import type { Mark, Timeline } from "../api";
import { call } from "../request";
import { asksWhatIf } from "../router";
import { replay, replayed } from "../stream";
import { later } from "./later";
import { absolute } from "./time";

const WhatIf = later(() => import("../pages/forecasts").then((m) => m.WhatIf));

// ReplayBar moves the whole page through the log. Its marks are the events that matter, at
// even distances: hours in which nothing happened take no room.
export function ReplayBar() {
  const at = replayed.value;
  const [marks, setMarks] = useState<Timeline>();
  const [open, setOpen] = useState(asksWhatIf);
  useEffect(() => {
    if (at === undefined) return setOpen(false);
    call("history-marks").then(setMarks, () => setMarks(undefined));
  }, [at === undefined]);
  if (at === undefined) return null;
  const list = marks?.marks ?? [];
  const nearest = list.findLastIndex((m) => m.seq <= at);
  const step = (to: number) => {
    const m = list[Math.max(0, Math.min(list.length - 1, to))];
    if (m) replay(m.seq);
  };
  const mark = list[nearest];
  const after = mark && mark.seq < at ? `after ${mark.seq} ` : "";
  return (
    <div class="replay" role="region" aria-label="Replay">
      <button type="button" onClick={() => step(after ? nearest : nearest - 1)} aria-label="Event before">◀</button>
      <input type="range" aria-label="Moment of the log" aria-valuetext={mark ? `record ${at}, ${after}${mark.type} ${about(mark)}` : `record ${at}`}
        min={0} max={Math.max(0, list.length - 1)} value={Math.max(0, nearest)} onInput={(e) => step(Number(e.currentTarget.value))} />
      <button type="button" onClick={() => step(nearest + 1)} aria-label="Next event">▶</button>
      <p>
        Record {at} of {marks?.last.seq ?? "…"}{mark && <>: {after}<b>{mark.type}</b> {about(mark)} <span class="dim">{absolute(mark.at)}</span></>}
      </p>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>What if…</button>
      <button type="button" onClick={() => replay()}>Back to now</button>
      {open && <WhatIf at={at} />}
    </div>
  );
}

// about is what a mark is about, as the log's page asks for it.
const about = (m: Mark) => (m.subject?.kind ? `${m.subject.kind}/${m.subject.name}` : "");

import type { Session } from "../api";
import { Choice, cut } from "../parts/filters";
import { Command, Empty, Loaded, Section } from "../parts/layout";
import { type Column, Pager, Table } from "../parts/table";
import { absolute } from "../parts/time";
import { Bands, Now, SessionNav, type Slot, hostsOf, placed, slotOf } from "../parts/timeslot";
import { parameter, withParameters } from "../router";
import { now, useAnswer } from "../stream";
import { Is, toneOf } from "../words";

const hour = 3_600_000, day = 24 * hour;

// dayOf and weekOf are when the day and the week began that an instant is in, on the clock of UTC.
const dayOf = (at: number) => Math.floor(at / day) * day;
const weekOf = (at: number) => dayOf(at) - ((Math.floor(at / day) + 3) % 7) * day; // 1970 began on a Thursday

interface Booked {
  session: Session;
  slot: Slot;
}

// lanes puts what would overlap below each other.
function lanes(all: Booked[]): Booked[][] {
  const out: Booked[][] = [];
  for (const b of [...all].sort((x, y) => x.slot.provision - y.slot.provision)) {
    const free = out.find((lane) => lane.at(-1)!.slot.cleanup <= b.slot.provision);
    if (free) free.push(b);
    else out.push([b]);
  }
  return out;
}

// CalendarPage shows the timeslots of a day or a week, a row for each session or for each host.
export function CalendarPage() {
  const sessions = useAnswer("list-sessions");
  const daily = parameter("view") === "day";
  const long = daily ? day : 7 * day;
  const chosen = Date.parse(`${parameter("from")}T00:00:00Z`) || now.value;
  const low = daily ? dayOf(chosen) : weekOf(chosen), high = low + long;
  const from = (at: number) => withParameters({ from: new Date(at).toISOString().slice(0, 10), offset: "" });
  return (
    <>
      <h1>Calendar</h1>
      <SessionNav at="/calendar" />
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <Choice name="view" label="Shown" any="a week" values={["day"]} />
        <Choice name="rows" label="A row for each" any="session" values={["host"]} />
      </form>
      <nav class="pager" aria-label="Time">
        <a href={from(low - long)} rel="prev">Before</a>
        <b>{absolute(low).slice(0, 10)}{daily ? "" : ` to ${absolute(high - day).slice(0, 10)}`} (UTC)</b>
        <a href={from(high)} rel="next">After</a>
        <a href={withParameters({ from: "", offset: "" })}>Today</a>
      </nav>
      <Loaded of={sessions}>
        {(all) => {
          const shown = (all.items ?? []).map((session) => ({ session, slot: slotOf(session.timeslot) })).filter((b) => b.slot.provision < high && b.slot.cleanup > low).sort((a, b) => a.slot.start - b.slot.start);
          if (shown.length === 0) return <Empty>No session has its timeslot then.</Empty>;
          return <Shown booked={shown} low={low} high={high} daily={daily} />;
        }}
      </Loaded>
      <p class="same">The same from the shell: <Command line="steady session calendar" /> For calendar programs: <Command line="steady session calendar -o ics > sessions.ics" /></p>
    </>
  );
}

// rowsOf are the rows of the picture by their names.
function rowsOf(booked: Booked[]): [string, Booked[]][] {
  if (parameter("rows") !== "host") return booked.map((b) => [b.session.name, [b]]);
  const hosts = [...new Set(booked.flatMap((b) => hostsOf(b.session)))].sort();
  const on = (host: string) => booked.filter((b) => hostsOf(b.session).includes(host));
  const none = booked.filter((b) => hostsOf(b.session).length === 0);
  return [...hosts.map((h): [string, Booked[]] => [h, on(h)]), ...(none.length > 0 ? [["no host", none] as [string, Booked[]]] : [])];
}

interface Drawn {
  low: number;
  high: number;
  daily: boolean;
}

// Shown is a part of the timeslots as a picture, and the same in words.
function Shown({ booked, ...drawn }: { booked: Booked[] } & Drawn) {
  const { rows, ...page } = cut(rowsOf(booked));
  const words = [...new Set(rows.flatMap(([, list]) => list))];
  return (
    <>
      <Picture rows={rows} {...drawn} />
      <Pager {...page} />
      <Section title="In words"><Table label="Timeslots in words" columns={columns} rows={words} id={(b) => b.session.name} /></Section>
    </>
  );
}

function Picture({ rows, low, high, daily }: { rows: [string, Booked[]][] } & Drawn) {
  const step = daily ? 3 * hour : day;
  const ticks = Array.from({ length: (high - low) / step }, (_, i) => low + i * step);
  const named = (at: number) => (daily ? absolute(at).slice(11, 16) : new Date(at).toUTCString().slice(0, 7).replace(",", ""));
  return (
    <ol class="calendar" aria-label="Timeslots">
      <li class="axis" aria-hidden="true"><span /><div>{ticks.map((t) => <span key={t}>{named(t)}</span>)}</div></li>
      {rows.map(([name, list]) => (
        <li key={name}>
          <span>{name}</span>
          <div>
            {lanes(list).map((lane, i) => (
              <div key={i} class="track">
                {lane.map((b) => <SlotLink key={b.session.name} booked={b} low={low} high={high} />)}
                <Now low={low} high={high} />
              </div>
            ))}
          </div>
        </li>
      ))}
    </ol>
  );
}

// SlotLink is a timeslot in the picture, which leads to its session.
function SlotLink({ booked: { session, slot }, low, high }: { booked: Booked; low: number; high: number }) {
  const style = placed(slot.start, slot.end, low, high);
  const said = `${session.name}, ${session.state}, ${absolute(slot.start)} to ${absolute(slot.end)}`;
  return (
    <>
      <Bands slot={slot} low={low} high={high} />
      {style && <a class={`slot ${toneOf(session.state)}`} href={`/sessions/${session.name}`} style={style} aria-label={said} title={said}>{session.name}</a>}
    </>
  );
}

const columns: Column<Booked>[] = [
  { name: "Session", show: ({ session }) => <a href={`/sessions/${session.name}`}>{session.name}</a> },
  { name: "Starts (UTC)", show: ({ slot }) => <span class="word">{absolute(slot.start).slice(0, 16)}</span> },
  { name: "Ends (UTC)", show: ({ slot }) => <span class="word">{absolute(slot.end).slice(0, 16)}</span> },
  { name: "State", show: ({ session }) => <Is kind="sessions" of={session.summary} /> },
  { name: "Hosts", show: ({ session }) => hostsOf(session).map((h) => <span key={h}><a href={`/hosts/${h}`}>{h}</a> </span>) },
];

import type { Session } from "../api";
import { Choice, Part, paged } from "../parts/filters";
import { Command, Empty, Loaded } from "../parts/layout";
import { type Column, Pager, Table } from "../parts/table";
import { Time } from "../parts/time";
import { SessionNav, slotOf } from "../parts/timeslot";
import { may } from "../login";
import { replayed, useAnswer } from "../stream";
import { Is, wordsOf } from "../words";

// SessionsPage lists the sessions that are kept, those that start last first.
export function SessionsPage() {
  const sessions = useAnswer("page-sessions", {}, paged("search", "state"));
  return (
    <>
      <h1>Sessions</h1>
      <SessionNav at="/sessions" />
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <Part name="search" label="Part of its name or owner" />
        <Choice name="state" label="State" values={wordsOf("sessions")} />
      </form>
      {may("create-session") && replayed.value === undefined && (
        <p><a href="/templates">New session from a template</a>, or of a file: <Command line="steady session create -f FILE" /></p>
      )}
      <p class="same">Volumes that sessions keep on their hosts for a while: <Command line="steady session bin" /> <Command line="steady session discard HOST VOLUME" /></p>
      <Loaded of={sessions}>
        {(p) => p.total === 0
          ? <Empty>No session is like that. Where one would run now: <Command line="steady session preview -f FILE" /></Empty>
          : <><Table label="Sessions" columns={columns} rows={p.items ?? []} id={(s) => s.name} /><Pager {...p} /></>}
      </Loaded>
    </>
  );
}

const columns: Column<Session>[] = [
  { name: "Session", show: (s) => <a href={`/sessions/${s.name}`}>{s.name}</a> },
  { name: "State", show: (s) => <Is kind="sessions" of={s.summary} /> },
  { name: "Starts", show: (s) => <Time at={slotOf(s.timeslot).start} /> },
  { name: "Ends", show: (s) => <Time at={slotOf(s.timeslot).end} /> },
  { name: "Owner", show: (s) => s.owner, narrow: true },
  { name: "Why", show: (s) => s.summary.reason },
];

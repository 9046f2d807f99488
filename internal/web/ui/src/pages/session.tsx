import { useState } from "preact/hooks";
import type { Session, SessionJobStatus, SessionPartStatus, SessionPodStatus } from "../api";
import { Events } from "../parts/events";
import { Command, Copy, Loaded, Section } from "../parts/layout";
import { Time, absolute } from "../parts/time";
import { type Slot, TimeslotBar, slotOf } from "../parts/timeslot";
import { Verb } from "../parts/verb";
import { stringify } from "../exact";
import { call, pathOf } from "../request";
import { may } from "../login";
import { now, replayed, useAnswer } from "../stream";
import { Is } from "../words";

// SessionPage is one session: its timeslot, and its parts, pods and phases as a tree.
export function SessionPage({ name }: { name: string }) {
  const session = useAnswer("show-session", { name });
  const about = `session/${name}`;
  return (
    <>
      <h1>Session {name}</h1>
      <Loaded of={session}>{(s) => <Known s={s} />}</Loaded>
      {session.error?.status !== 404 && <Section title="Timeline" aside={<a href={`/log?about=${encodeURIComponent(about)}`}>All of it</a>}><Events about={about} limit={20} /></Section>}
    </>
  );
}

const ending = ["Stopping", "Retired", "Orphaned"];

function Known({ s }: { s: Session }) {
  const over = ending.includes(s.state);
  const slot = slotOf(s.timeslot);
  return (
    <>
      <p class="why"><Is kind="sessions" of={s.summary} /> {s.summary.reason}</p>
      <p class="dim">Of {s.owner}{s.created && <>, asked for <Time at={Date.parse(s.created)} /></>}</p>
      <Verbs s={s} slot={slot} over={over} />
      <Section title="Timeslot">
        <TimeslotBar slot={slot} />
        <dl class="facts">
          <dt>Comes up</dt><dd><When at={slot.provision} /></dd>
          <dt>Starts</dt><dd><When at={slot.start} /></dd>
          <dt>Ends</dt><dd><When at={slot.end} /></dd>
          <dt>Gone by</dt><dd><When at={slot.cleanup} /></dd>
        </dl>
      </Section>
      <Section title="Parts">
        <ul class="tree">
          {(s.parts ?? []).map((p) => <PartNode key={p.name} session={s.name} part={p} over={over} />)}
        </ul>
      </Section>
      <Receives name={s.name} />
    </>
  );
}

// Verbs are those of the whole session: one that has not come up is started or taken back, another is stopped.
function Verbs({ s, slot, over }: { s: Session; slot: Slot; over: boolean }) {
  const early = !over && now.value < slot.provision;
  const operate = (verb: string, label: string, what: string, danger = false) => (
    <Verb operation="operate-session" label={label} parts={{ name: s.name }} named={() => ({ verb })} noReason danger={danger} what={what} line={() => `steady session ${verb} ${s.name}`} />
  );
  return (
    <div class="verbs" role="group" aria-label="Verbs">
      {early && operate("start", "Start", "It comes up now, and starts; its end stays. It is refused where others have booked its hosts until then.")}
      {early && operate("cancel", "Cancel", "It is taken back, and its hosts are free again: nothing of it has come up.", true)}
      {!over && !early && operate("stop", "Stop", "All of it is taken down, in reverse order, and its hosts are free again.", true)}
      {!over && <Extend name={s.name} />}
      {s.state !== "Retired" && operate("reconcile", "Reconcile", "All of it is checked now.")}
    </div>
  );
}

const When = ({ at }: { at: number }) => <><Time at={at} /> <span class="dim">{absolute(at)}</span></>;

const minute = 60_000;

// Extend moves the end from where it is when the server decides it.
function Extend({ name }: { name: string }) {
  const body = (g: Record<string, string>) => {
    const by = Number(g.minutes) * minute;
    if (!Number.isInteger(by) || by === 0) throw new Error(`${g.minutes} are no minutes: give a number such as 30, or -30`);
    return { by };
  };
  return (
    <Verb operation="extend-session" label="Extend" parts={{ name }} noReason what="Its end moves, and its cleanup deadline by as much. It is refused where others have booked its hosts by then."
      fields={[{ name: "minutes", label: "By how many minutes; with a minus, sooner", type: "number", value: "30", required: true }]} body={body} line={(g) => `steady session extend ${name} --by ${g.minutes}m`} />
  );
}

// tried is a reason, with how often it was tried.
const tried = (reason = "", attempts = 0) => [reason, attempts > 0 ? `${attempts} ${attempts > 1 ? "attempts" : "attempt"}` : ""].filter(Boolean).join("; ");

function PartNode({ session, part, over }: { session: string; part: SessionPartStatus; over: boolean }) {
  const parts = { name: session, part: part.name };
  return (
    <li>
      <div class="node">
        <h3>part {part.name}</h3>
        <Is kind="parts" of={part.summary} />
        <span>{part.summary.reason}</span>
        {!over && (
          <span class="verbs" role="group" aria-label={`Verbs of part ${part.name}`}>
            {part.stopped
              ? <Verb operation="operate-part" label="Start" parts={parts} named={() => ({ verb: "start" })} noReason what="It comes up again." line={() => `steady session start ${session} ${part.name}`} />
              : <Verb operation="operate-part" label="Stop" parts={parts} named={() => ({ verb: "stop" })} noReason danger what="Its pods and phases are taken down; the rest of the session goes on." line={() => `steady session stop ${session} ${part.name}`} />}
          </span>
        )}
      </div>
      <ul>
        {(part.pods ?? []).map((p) => <PodNode key={p.name} pod={p} />)}
        {(part.phases ?? []).map((j) => <PhaseNode key={j.name} parts={parts} phase={j} over={over} />)}
      </ul>
    </li>
  );
}

function PodNode({ pod }: { pod: SessionPodStatus }) {
  const { host, gpus, workloads, urls } = pod;
  return (
    <li>
      <div class="node">
        <b>pod {pod.name}</b>
        <Is kind="parts" of={pod.summary} />
        {host && <span>on <a href={`/hosts/${host}`}>{host}</a>{(gpus ?? []).length > 0 && `, GPU ${gpus!.join(", ")}`}</span>}
        <span>{tried(pod.reason, pod.attempts)}</span>
      </div>
      {(urls ?? []).length > 0 && <p class="leaves">{urls!.map((u) => <span key={u}>{/^https?:/.test(u) ? <a href={u} rel="noreferrer">{u}</a> : u} </span>)}</p>}
      <p class="leaves">{(workloads ?? []).map((id) => <span key={id}>{host ? <a href={`/workspaces/${host}/${id}`}>{id}</a> : id} </span>)}</p>
    </li>
  );
}

const anew = ["running", "failed"]; // the states of a phase that can begin anew

function PhaseNode({ parts, phase, over }: { parts: { name: string; part: string }; phase: SessionJobStatus; over: boolean }) {
  const at = `${parts.part}/${phase.name}`;
  return (
    <li>
      <div class="node">
        <b>phase {phase.name}</b>
        <Is kind="phases" of={phase.summary} />
        <span>{tried(phase.reason, phase.attempts)}</span>
        {!over && anew.includes(phase.state) && (
          <span class="verbs" role="group" aria-label={`Verbs of phase ${at}`}>
            <Verb operation="retry-phase" label="Retry phase" parts={{ ...parts, phase: phase.name }} noReason what="It begins anew: its job is asked for again." line={() => `steady session retry-phase ${parts.name} ${at}`} />
          </span>
        )}
      </div>
      {phase.result !== undefined && <details class="leaves"><summary>Result of {phase.name}</summary><pre tabIndex={0}>{stringify(phase.result, 2)}</pre></details>}
    </li>
  );
}

// Receives is where programs send events of the session, and on demand with which token.
function Receives({ name }: { name: string }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  const address = location.origin + pathOf("receive-event", { name });
  const show = () => {
    setError("");
    call("session-token", { name }).then((e) => setToken(e.eventToken), (e: Error) => setError(e.message));
  };
  return (
    <Section title="Events for it">
      <p>Programs send CloudEvents to <code>{address}</code> <Copy text={address} /> with the token of the session; the subject PART/PHASE addresses a phase.</p>
      {may("session-token") && replayed.value === undefined && (
        <div class="verbs">
          {token ? <><code>{token}</code><Copy text={token} /><button type="button" onClick={() => setToken("")}>Hide the token</button></> : <button type="button" onClick={show}>Show the token</button>}
          <Command line={`steady session token ${name}`} />
        </div>
      )}
      {error && <p role="alert" class="error">{error}</p>}
    </Section>
  );
}

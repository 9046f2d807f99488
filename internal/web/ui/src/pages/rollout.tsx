import type { Block, Rollout, RolloutDetail, Wave } from "../api";
import { Ladder, Why } from "../parts/ladder";
import { HostTable, hostQuery } from "../parts/hosts";
import { Bar, Command, Gauge, Loaded, Section } from "../parts/layout";
import { Events } from "../parts/events";
import { Countdown, Time, span } from "../parts/time";
import { Verb, because } from "../parts/verb";
import { Pager } from "../parts/table";
import type { Operation } from "../request";
import { parameter } from "../router";
import { replayed, useAnswer } from "../stream";
import { Is, toneOf } from "../words";

// RolloutPage is one rollout: what it waits for, its waves as they fill, and its hosts, those
// that failed first.
export function RolloutPage({ rest }: { rest: string[] }) {
  const name = rest.join("/");
  const rollout = useAnswer("show-rollout", { rollout: name }, { members: "none" });
  return (
    <>
      <h1>Rollout {name}</h1>
      <Loaded of={rollout}>{(r) => <Detail r={r} />}</Loaded>
    </>
  );
}

function Detail({ r }: { r: RolloutDetail }) {
  const then = r.asOf ? { at: String(r.asOf.record) } : undefined; // today its hosts stand in what followed
  const hosts = useAnswer("page-hosts", {}, { ...hostQuery({ rollout: r.name, sort: parameter("sort") || "state" }), ...then });
  return (
    <>
      <p>
        <Is kind="rollouts" of={r.summary} /> {r.summary.reason && <span>{r.summary.reason}</span>}{" "}
        {r.endedAt ? <>Ended <Time at={r.endedAt} />.</> : r.openedAt ? <>Opened <Time at={r.openedAt} />.</> : <>Queued <Time at={r.queuedAt} />.</>}
      </p>
      {r.step && <p>Next: {r.step.message}.</p>}
      <Verbs r={r} />
      {(r.gates ?? []).length > 0
        ? <Section title="Why not further yet"><Ladder label="Gates before the next wave" gates={r.gates!} without={own} /></Section>
        : (r.waveBlocks ?? []).length > 0 && <Section title="Waits for">{r.waveBlocks!.map((b) => <Why key={b.code + b.message} block={b} />)}</Section>}
      {r.asOf && <p class="dim">Waves and hosts are shown as they were when it ended, <Time at={r.asOf.at} />. Now they are in what followed.</p>}
      {(r.waves ?? []).length > 0 && (
        <Section title={r.asOf ? "Waves at its end" : "Waves"}>
          <ol class="waves">{r.waves!.map((w) => <WaveRow key={w.name} wave={w} blocks={r.waveBlocks ?? []} />)}</ol>
        </Section>
      )}
      {(r.budgets ?? []).length > 0 && (
        <Section title="Disruption budgets">
          {r.budgets!.map((b) => <Gauge key={b.selector} label={b.selector} used={b.inFlight} most={b.max} />)}
        </Section>
      )}
      {(r.next ?? []).length > 0 && (
        <Section title="Next in line">
          <ol class="next">{r.next!.map((m) => <li key={m.host}><a href={`/hosts/${m.host}`}>{m.host}</a> <span class="dim">{m.wave}{m.block ? `: ${m.block.message}` : ""}{m.turn ? `; ${m.turn.message}` : ""}</span></li>)}</ol>
        </Section>
      )}
      <Section title={r.asOf ? "Hosts at its end" : "Hosts"}>
        <Loaded of={hosts}>
          {(h) => (
            <>
              <HostTable hosts={h.items} />
              <Pager total={h.total} offset={h.offset} />
            </>
          )}
        </Loaded>
      </Section>
      <Section title="Decisions" aside={<a href={`/log?about=${encodeURIComponent(`rollout/${r.name}`)}`}>All of them</a>}>
        <Events about={`rollout/${r.name}`} limit={20} />
      </Section>
    </>
  );
}

function WaveRow({ wave, blocks }: { wave: Wave; blocks: Block[] }) {
  const soaked = blocks.find((b) => b.code === "soak")?.earliest;
  const parts = Object.entries(wave.states).map(([word, count]) => ({ word, count, tone: toneOf(word) }));
  const waiting = wave.hosts - parts.reduce((n, p) => n + p.count, 0);
  if (waiting > 0) parts.push({ word: "waiting", count: waiting, tone: "wait" });
  return (
    <li>
      <h3>{wave.name} <Is kind="waves" of={wave.summary} /></h3>
      <Bar label={`Wave ${wave.name}`} parts={parts} />
      <p class="dim">
        {parts.map((p) => `${p.count} ${p.word}`).join(", ") || "no hosts"} of {wave.hosts}
        {wave.failures > 0 && <b class="bad"> · {wave.failures} failed</b>}
        {wave.offline > 0 && <> · {wave.offline} away</>}
        {" · soak "}{span(wave.soak)}
        {wave.state === "open" && soaked ? <> · <Countdown until={soaked} over="soaked" /></> : null}
      </p>
    </li>
  );
}

// own are the operations that the verbs of the page carry out: its gates repeat none.
const own: Operation[] = ["operate-rollout", "promote-wave", "retry-rollout"];

const rolloutVerbs = [
  { verb: "pause", label: "Pause", what: "No new grants are given out until it is resumed; what runs goes on.", danger: false },
  { verb: "resume", label: "Resume", what: "Ends a pause, or a halt with its failures acknowledged.", danger: false },
  { verb: "cancel", label: "Cancel", what: "Ends the rollout for good; hosts keep what they run.", danger: true },
] as const;

// Verbs are what can be decided about a rollout, the one that stops it first; none while the past is shown. The server decides which are possible.
export function Verbs({ r }: { r: RolloutDetail }) {
  if (replayed.value !== undefined) return null;
  const fits = (verb: string) => (r.verbs ?? []).some((v) => v.verb === verb && v.possible);
  const not = (r.verbs ?? []).filter((v) => !v.possible);
  if (!r.verbs) return null;
  return (
    <div class="verbs" role="group" aria-label="Verbs">
      {rolloutVerbs.filter((v) => fits(v.verb)).map((v) => (
        <Verb key={v.verb} operation="operate-rollout" label={v.label} parts={{ rollout: r.name, verb: v.verb }} what={v.what} danger={v.danger}
          line={(given) => `steady rollout ${v.verb} ${r.name}${because(given)}`} />
      ))}
      {fits("promote") && <Verb operation="promote-wave" label="Promote" parts={{ rollout: r.name }} what="Opens the next wave without the evidence that the gate waits for."
        fields={[{ name: "wave", label: "Wave that is meant", value: (r.waves ?? []).find((w) => w.state === "open")?.name ?? "", required: true }]}
        line={(given) => `steady rollout promote ${r.name} --wave ${given.wave}${because(given)}`} />}
      {fits("retry") && <Retry r={r} />}
      {fits("rollback") && <Rollback r={r} />}
      {not.length > 0 && (
        <details class="signed">
          <summary>Not now</summary>
          <dl class="facts">{not.map((v) => <><dt>{v.verb}</dt><dd>{v.message}</dd></>)}</dl>
        </details>
      )}
    </div>
  );
}

const Retry = ({ r }: { r: Rollout }) => (
  <Verb operation="retry-rollout" label="Retry" parts={{ rollout: r.name }} what="Tries the same release again, once the cause of its failures is mended."
    line={(given) => `steady rollout retry ${r.name}${because(given)}`} />
);

// Rollback is signed where the keys are, which is never a browser.
const Rollback = ({ r }: { r: Rollout }) => (
  <details class="signed">
    <summary>Roll back…</summary>
    <p>Every host goes back to where it came from. That is signed where the keys are:</p>
    <Command line={`steady rollout rollback ${r.name} --reason '…'`} />
  </details>
);

import type { Answer, Block, Gate, GateRemedy } from "../api";
import type { Operation } from "../request";
import { routes } from "../api";
import { Status } from "../words";
import { Command } from "./layout";
import { Time } from "./time";
import { Verb, because } from "./verb";

// Ladder is every gate in the order in which they are asked: whether it was passed, what it
// waits for, and what each person may do about it.
// Remedies that the page offers already are left out, and each is offered once.
export function Ladder({ label, gates, passed, without = [] }: { label: string; gates: Gate[]; passed?: string; without?: Operation[] }) {
  if (gates.every((g) => stateOf(g) === "passed")) {
    return <details><summary>{passed ?? `All ${gates.length} gates were passed`}</summary><Rungs label={label} gates={gates} without={without} /></details>;
  }
  return <Rungs label={label} gates={gates} without={without} />;
}

// stateOf is that of a gate now: one that was passed by what the host runs may hold what comes next.
const stateOf = (g: Gate) => (g.state === "passed" && g.block ? "holds" : g.state);

function Rungs({ label, gates, without }: { label: string; gates: Gate[]; without: Operation[] }) {
  const offered = new Set<string>();
  const fresh = (r: GateRemedy) => !without.includes(r.operation as Operation) && !offered.has(r.command) && offered.add(r.command);
  return (
    <ol class="ladder" aria-label={label}>
      {gates.map((g) => (
        <li key={g.gate + (g.rule ?? "")} class={stateOf(g)}>
          <Status kind="other" word={stateOf(g)}>{g.state === "notReached" ? "not reached" : stateOf(g)}</Status>{" "}
          <Status kind="gates" word={g.gate} />{g.rule && g.rule !== g.gate && <span class="dim"> {g.rule}</span>}
          {g.block && <Why block={g.block} remedies={(g.block.remedies ?? []).filter(fresh)} />}
        </li>
      ))}
    </ol>
  );
}

// Why is what a gate waits for, and what clears it.
export function Why({ block, remedies = block.remedies ?? [] }: { block: Block; remedies?: GateRemedy[] }) {
  return (
    <div class="block">
      <p>
        {block.message} {block.earliest > 0 && <span class="dim">Earliest <Time at={block.earliest} />.</span>}
        {block.clearedBy && <span class="dim"> Cleared by {block.clearedBy}.</span>}
      </p>
      {remedies.map((r) => <Do key={r.command} remedy={r} />)}
    </div>
  );
}

// Do is the button of a remedy, or its command where that takes a signature.
function Do({ remedy }: { remedy: GateRemedy }) {
  const id = remedy.operation as Operation | undefined;
  if (!id || !(id in routes)) return <Command line={remedy.command} />;
  const names = [...routes[id][1].matchAll(/\{(\w+)\}/g)].map((m) => m[1]!);
  const parts = Object.fromEntries(names.map((n, i) => [n, remedy.args?.[i] ?? ""]));
  const label = remedy.command.split(" ")[2] ?? id;
  return (
    <Verb operation={id} label={label[0]!.toUpperCase() + label.slice(1)} parts={parts} what={routes[id][3] + "."}
      body={(g) => ({ reason: g.reason, ...(remedy.wave ? { wave: remedy.wave } : {}) })} line={(g) => remedy.command + because(g)} />
  );
}

// WhyHost is why a host stands where it does.
export function WhyHost({ answer }: { answer: Answer }) {
  return (
    <>
      <p class="why">{answer.message}</p>
      {answer.turn && <p>{answer.turn.message[0]!.toUpperCase() + answer.turn.message.slice(1)}.</p>}
      {(answer.gates ?? []).length > 0 && <Ladder label="Gates before the next grant" gates={answer.gates!} passed={answer.block || answer.target !== answer.current ? `The ${answer.gates!.length} gates before its grant` : undefined} />}
      {(answer.pendingGates ?? []).length > 0 && <><h3>Then, {answer.pending}</h3><Ladder label={`Gates of ${answer.pending}`} gates={answer.pendingGates!} /></>}
      {(answer.waveBlocks ?? []).length > 0 && <><h3>Its wave {answer.wave} waits for</h3>{answer.waveBlocks!.map((b) => <Why key={b.code + b.message} block={b} />)}</>}
    </>
  );
}

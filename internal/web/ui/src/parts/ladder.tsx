import type { Answer } from "../api";
import { Blocks } from "../pages/rollout";
import { Time } from "./time";
import { Status } from "../words";

// Ladder is why a host has not moved: every gate in its order, whether it is passed, what it
// waits for, and who can clear it.
export function Ladder({ answer }: { answer: Answer }) {
  return (
    <>
      <p class="why">{answer.message}</p>
      {(answer.ladder ?? []).length > 0 && (
        <ol class="ladder">
          {answer.ladder!.map((r) => (
            <li key={r.gate} class={r.state}>
              <Status kind="ladder" word={r.state} /> <b>{r.gate}</b> <span>{r.message}</span>
              {r.earliest ? <span class="dim"> earliest <Time at={r.earliest} /></span> : null}
              {r.clearedBy && <span class="dim"> cleared by {r.clearedBy}</span>}
            </li>
          ))}
        </ol>
      )}
      {(answer.waveBlocks ?? []).length > 0 && <><h3>Its wave waits for</h3><Blocks blocks={answer.waveBlocks!} /></>}
    </>
  );
}

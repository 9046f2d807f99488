import { useAnswer } from "../stream";
import { Status } from "../words";
import { Loaded } from "./layout";
import { Time } from "./time";

// Chain says how far the chain of hashes was checked.
export function Chain() {
  const chain = useAnswer("history-chain");
  return (
    <Loaded of={chain}>
      {(c) => (
        <p class="chain" role="status">
          {c.broken
            ? <><Status kind="other" word="failed">Chain not checked beyond record {c.through}</Status>: {c.broken}</>
            : c.at === 0
              ? "The chain of hashes is not checked yet."
              : <><Status kind="other" word="ok">Chain whole</Status>: records {c.first} to {c.through}{c.through < c.last && ` of ${c.last}`}, checked <Time at={c.at} /></>}
        </p>
      )}
    </Loaded>
  );
}

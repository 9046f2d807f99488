import { InboxList } from "../parts/inbox";
import { Command, Loaded } from "../parts/layout";
import { useAnswer } from "../stream";

// AttentionPage is the whole inbox: what of hosts, rollouts, nodes, sessions and the server needs a person.
export function AttentionPage() {
  const inbox = useAnswer("list-attention");
  return (
    <>
      <h1>Attention</h1>
      <p>What needs a person, the worst first. An item goes by itself when its cause is mended. <Command line="steady attention" /></p>
      <Loaded of={inbox}>{(all) => <InboxList inbox={all} />}</Loaded>
    </>
  );
}

import { DriftPage } from "./drift";
import { EpisodePage } from "./episode";
import { NodePage, NodesPage } from "./nodes";
import { ObjectPage } from "./object";
import { ObjectsPage } from "./objects";

// DevicesPage is a page of nodes, of what they have, or of drift: one piece of code that is
// fetched when the first of them is opened.
export function DevicesPage({ first, rest }: { first: "nodes" | "config" | "drift"; rest: string[] }) {
  const [a = "", b = ""] = rest;
  if (first === "nodes") return a ? <NodePage key={a} node={a} /> : <NodesPage />;
  if (first === "drift") return a ? <EpisodePage key={a} id={a} /> : <DriftPage />;
  return b ? <ObjectPage key={`${a}/${b}`} kind={a} name={b} /> : <ObjectsPage key={a} kind={a || "flow"} />;
}

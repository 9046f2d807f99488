import type { NodeRow } from "../api";

// needsOf says what a node needs somebody for.
export function needsOf(n: NodeRow): string[] {
  return [
    ...(n.status === "paused" ? [`paused: ${n.why}`] : []),
    ...(n.status === "not-registered" ? [`it never registered. Next: steady node token ${n.name}`] : []),
    ...(n.toAdopt > 0 ? [`objects to adopt: ${n.toAdopt}`] : []),
    ...(n.conflicts > 0 ? [`conflicts: ${n.conflicts}`] : []),
    ...(n.legs.failed ? [`failed pushes: ${n.legs.failed}`] : []),
    ...(n.problem ? [`its last report or connection was refused: ${n.problem}`] : []),
  ];
}

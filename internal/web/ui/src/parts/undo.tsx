import { Verb, because } from "./verb";

// Undo takes a decision about drift back.
export const Undo = ({ id }: { id: string }) => <Verb operation="undo-resolution" label="Undo" parts={{ id }} line={(g) => `steady drift undo ${id}${because(g)}`} />;

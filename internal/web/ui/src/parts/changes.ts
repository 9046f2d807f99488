import { parameters } from "../router";

// kinds are the changes of a rerun, by their name in the API, in the address and as a flag.
export const kinds = {
  drop: { label: "An event had not come", said: (c: string) => `What if event ${c} had not come?` },
  delay: { label: "An event had come later", said: (c: string) => `What if event ${c.split("=")[0]} had come ${c.split("=")[1]} later?` },
  policy: { label: "Another policy", said: (c: string) => `What if the policy were ${c}?` },
  budget: { label: "Another budget", said: (c: string) => `What if the budget were ${c}?` },
};
export type Kind = keyof typeof kinds;
export type Changes = Record<Kind, string[]>;

export const names = Object.keys(kinds) as Kind[];
export const asked = (): Changes => Object.fromEntries(names.map((k) => [k, parameters(k)])) as Changes;
export const edits = (c: Changes) => c.policy.length + c.budget.length > 0;

// asksWhatIf reports whether the address has a change.
export const asksWhatIf = () => names.some((k) => parameters(k).length > 0);

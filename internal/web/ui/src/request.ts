import { type Answers, routes } from "./api";
import { parse, stringify } from "./exact";

export type Operation = keyof Answers;

// Problem is what is wrong in what was sent: where, as a path with dots, and why.
export interface Problem {
  location?: string;
  message?: string;
}

// Refused is an answer of the server that is not a success, in its own words.
export class Refused extends Error {
  constructor(readonly status: number, detail: string, readonly problems: Problem[] = []) {
    super(detail);
  }
}

// lost is what a request that got no answer says.
const lost = "the server does not answer; try again when the connection is back";

// request sends one request and returns its answer, or throws Refused.
export async function request<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const init: RequestInit = { method, signal, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    init.body = stringify(body);
    init.headers = { ...init.headers, "Content-Type": "application/json" };
  }
  const answer = await fetch(path, init).catch(() => {
    throw new Refused(0, lost);
  });
  if (!answer.ok) {
    throw await refusal(answer);
  }
  return (answer.status === 204 ? undefined : parse(await answer.text())) as T;
}

async function refusal(answer: Response): Promise<Refused> {
  const said = await answer.json().catch(() => undefined);
  const problems: Problem[] = said?.errors ?? [];
  const detail: string = said?.detail ?? `${answer.status} ${answer.statusText}`;
  const more = problems.filter((p) => !detail.includes(p.message ?? "")).map((p) => `${p.location ?? ""} ${p.message ?? ""}`.trim());
  return new Refused(answer.status, [detail, ...more].join("; "), problems);
}

// Query is what is asked for; a name may have several values, and "" is left out.
export type Query = Record<string, string | string[]>;

// pathOf fills the parts of an operation's path, and adds its query.
export function pathOf(id: Operation, parts: Record<string, string> = {}, query: Query = {}): string {
  const path = routes[id][1].replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parts[name] ?? ""));
  const pairs = Object.entries(query).flatMap(([name, v]) => [v].flat().filter((x) => x !== "").map((x) => [name, x]));
  const asked = new URLSearchParams(pairs).toString();
  return asked ? `${path}?${asked}` : path;
}

// call asks for an operation of the API.
export function call<I extends Operation>(id: I, parts?: Record<string, string>, body?: unknown, query?: Query): Promise<Answers[I]> {
  return request(routes[id][0], pathOf(id, parts, query), body);
}

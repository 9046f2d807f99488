import { signal } from "@preact/signals";

const here = () => location.pathname + location.search;

// url is what the address bar has, from the first slash on.
export const url = signal(here());

addEventListener("popstate", () => {
  url.value = here();
});

// go opens a page of this app.
export function go(to: string, replace = false) {
  if (to === here()) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  url.value = here();
  if (!replace) scrollTo(0, 0);
}

// Links within the app need no request.
addEventListener("click", (e) => {
  const a = (e.target as Element).closest?.("a");
  if (!a || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
  if (a.origin !== location.origin || a.target || a.hasAttribute("download") || a.pathname.startsWith("/v1/")) return;
  e.preventDefault();
  go(a.pathname + a.search);
});

// parameter is one of the query, or "".
export function parameter(name: string): string {
  return new URLSearchParams(url.value.split("?")[1]).get(name) ?? "";
}

// withParameters is this page's address with some of the query changed; "" removes one.
export function withParameters(change: Record<string, string>): string {
  const [path, query] = url.value.split("?") as [string, string?];
  const q = new URLSearchParams(query);
  for (const [k, v] of Object.entries(change)) v === "" ? q.delete(k) : q.set(k, v);
  const rest = q.toString();
  return rest ? `${path}?${rest}` : path;
}

import { signal } from "@preact/signals";

const said = signal<{ id: number; text: string }[]>([]);
let last = 0;

// say tells what came of something that the person did.
export function say(text: string) {
  const id = ++last;
  said.value = [...said.value, { id, text }];
  setTimeout(() => {
    said.value = said.value.filter((s) => s.id !== id);
  }, 8000);
}

export function Toasts() {
  return <div class="toasts" role="status" aria-live="polite">{said.value.map((s) => <p key={s.id}>{s.text}</p>)}</div>;
}

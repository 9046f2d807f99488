import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import type { Me } from "./api";
import { type Operation, Refused, call } from "./request";
import { go } from "./router";

// me is who looks at the page: undefined until the server has answered, null for nobody.
export const me = signal<Me | null | undefined>(undefined);

// may reports whether this person's role admits an operation.
export const may = (id: Operation) => me.value?.allowed?.includes(id) ?? false;

// who asks the server who looks at the page.
export async function who(): Promise<void> {
  try {
    me.value = await call("me");
  } catch (e) {
    if (!(e instanceof Refused) || e.status !== 401) throw e;
    me.value = null;
  }
}

// refused is why a one-time link did not log in.
export const refused = signal("");

// enter uses the one-time code in the address, if there is one.
export async function enter(): Promise<void> {
  const code = location.pathname === "/login" ? location.hash.slice(1) : "";
  if (location.pathname === "/login") go("/", true);
  if (code) {
    await call("log-in", {}, { code }).catch((e: Error) => {
      refused.value = e.message;
    });
  }
  await who();
}

export async function leave(): Promise<void> {
  await call("log-out").catch(() => undefined);
  me.value = null;
}

export function Login() {
  const [error, setError] = useState("");
  const submit = async (e: SubmitEvent) => {
    e.preventDefault();
    const token = new FormData(e.target as HTMLFormElement).get("token");
    try {
      await call("log-in", {}, { token });
      await who();
    } catch (e) {
      setError((e as Error).message);
    }
  };
  return (
    <main class="login">
      <h1>Log in</h1>
      <form onSubmit={submit}>
        <label for="token">Operator token</label>
        <input id="token" name="token" type="password" required autocomplete="off" autofocus aria-describedby="login-help" />
        <button type="submit" class="primary">Log in</button>
      </form>
      <p id="login-help">
        Or run <code>steady ui</code> where your command line works: it opens this page and logs you in.
      </p>
      {(error || refused.value) && <p role="alert" class="error">{error || refused.value}</p>}
    </main>
  );
}

import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";

// titled gives the window the title of what it shows.
export function titled() {
  document.title = `${document.querySelector("h1")?.textContent ?? "Fleet"} · Steady`;
}

// later is a component whose code is fetched when it is shown for the first time.
export function later<P extends object>(load: () => Promise<FunctionComponent<P>>): FunctionComponent<P> {
  let loaded: FunctionComponent<P> | undefined;
  return (props) => {
    const [, known] = useState(false);
    const [failed, fail] = useState(false);
    useEffect(() => {
      if (loaded) return titled();
      load().then((c) => {
        loaded = c;
        known(true);
      }, () => fail(true));
    }, [loaded]);
    const Shown = loaded;
    if (Shown) return <Shown {...props} />;
    return failed ? <p role="alert" class="error">This part of the page could not be fetched. Load the page again.</p> : <p class="dim" aria-busy="true">Loading…</p>;
  };
}

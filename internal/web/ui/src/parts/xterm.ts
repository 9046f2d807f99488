import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import css from "@xterm/xterm/css/xterm.css" with { type: "text" };

// adopt makes style sheets of what is put into the style elements that build makes: the page's
// content policy blocks such elements. It returns what takes the sheets away.
function adopt(build: () => void): () => void {
  const base = new CSSStyleSheet();
  base.replaceSync(css);
  const sheets = [base];
  const create = document.createElement.bind(document);
  document.createElement = ((tag: string, options?: ElementCreationOptions) => {
    if (tag !== "style") return create(tag, options);
    const sheet = new CSSStyleSheet();
    sheets.push(sheet);
    const e = create("span");
    e.hidden = true;
    Object.defineProperty(e, "textContent", { set: (text: string) => sheet.replaceSync(text) });
    return e;
  }) as typeof document.createElement;
  try {
    build();
  } finally {
    delete (document as Partial<Document>).createElement; // that of its prototype is back
  }
  document.adoptedStyleSheets.push(...sheets);
  return () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => !sheets.includes(s));
  };
}

// draw makes a terminal in an element, as wide as that is. Leave is called for who wants out
// with the keyboard.
export function draw(at: HTMLElement, leave: () => void) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const t = new Terminal({
    scrollback: 5000, screenReaderMode: true, fontSize: 14, fontFamily: "ui-monospace, monospace",
    theme: { background: colour("back"), foreground: colour("text"), cursor: colour("text"), selectionBackground: colour("line") },
  });
  const fit = new FitAddon();
  t.loadAddon(fit);
  t.attachCustomKeyEventHandler((e) => {
    if (e.key !== "Escape" || !e.shiftKey) return true;
    leave();
    return false;
  });
  const undress = adopt(() => t.open(at));
  fit.fit();
  t.focus();
  const watch = new ResizeObserver(() => fit.fit());
  watch.observe(at);
  return {
    write: (data: Uint8Array, done: () => void) => t.write(data, done),
    onInput: (f: (text: string) => void) => t.onData(f),
    onSize: (f: (rows: number, cols: number) => void) => t.onResize(({ rows, cols }) => f(rows, cols)),
    size: () => ({ rows: t.rows, cols: t.cols }),
    dispose: () => {
      watch.disconnect();
      t.dispose();
      undress();
    },
  };
}

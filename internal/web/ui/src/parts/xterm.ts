import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import css from "@xterm/xterm/css/xterm.css" with { type: "text" };

// The page's content policy blocks style attributes. Texts of a terminal are spans, which take theirs as
// properties instead.
HTMLSpanElement.prototype.setAttribute = function (name: string, value: string) {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
};

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

// announced is how many bytes screen readers are told. The library adds what comes, byte by byte, to one
// text in the page for as long as nobody presses a key, which a long line makes slower and slower.
const announced = 4096;

// draw makes a terminal in an element, as wide as that is. Leave is called for who wants out
// with the keyboard.
export function draw(at: HTMLElement, leave: () => void) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const t = new Terminal({
    scrollback: 5000, screenReaderMode: true, fontSize: 14, fontFamily: "ui-monospace, monospace",
    theme: { background: colour("back"), foreground: colour("text"), cursor: colour("text"), selectionBackground: colour("line") },
  });
  // What is pasted has no sequence that would end the bracket which tells a shell not to run it yet.
  const paste = (e: ClipboardEvent) => {
    e.preventDefault();
    e.stopPropagation();
    t.paste((e.clipboardData?.getData("text/plain") ?? "").replaceAll("\x1b", ""));
  };
  const fit = new FitAddon();
  t.loadAddon(fit);
  t.attachCustomKeyEventHandler((e) => {
    if (e.key !== "Escape" || !e.shiftKey) return true;
    leave();
    return false;
  });
  t.parser.registerOscHandler(8, () => true); // no links: what they say and where they lead are the program's
  const undress = adopt(() => t.open(at));
  at.addEventListener("paste", paste, true);
  fit.fit();
  t.focus();
  const watch = new ResizeObserver(() => fit.fit());
  watch.observe(at);
  let told = 0;
  let under = 0; // writes under way
  const write = (data: Uint8Array, done: () => void) => {
    under++;
    told += data.length;
    if (told > announced) t.options.screenReaderMode = false;
    t.write(data, () => {
      if (--under === 0 && told > announced) {
        told = 0;
        t.options.screenReaderMode = true; // beginning with what is on the screen
      }
      done();
    });
  };
  return {
    write,
    onInput: (f: (text: string) => void) => t.onData(f),
    onSize: (f: (rows: number, cols: number) => void) => t.onResize(({ rows, cols }) => f(rows, cols)),
    size: () => ({ rows: t.rows, cols: t.cols }),
    dispose: () => {
      watch.disconnect();
      at.removeEventListener("paste", paste, true);
      t.dispose();
      undress();
    },
  };
}

import { useEffect, useRef, useState } from "preact/hooks";
import { STDERR, STDOUT, EXIT } from "./output";
import { pathOf } from "../request";

const STDIN = 3;
const RESIZE = 4;
const START = 7;

const waiting = 16 << 20; // bytes that came and are not shown yet

const encoder = new TextEncoder();

// framed is one message of a terminal: a byte for the type, four for the length, and the content.
function framed(type: number, content: string): Uint8Array<ArrayBuffer> {
  const data = encoder.encode(content);
  const all = new Uint8Array(5 + data.length);
  all[0] = type;
  new DataView(all.buffer).setUint32(1, data.length);
  all.set(data, 5);
  return all;
}

// Terminal runs a command in a workspace for as long as it is on the page. What draws it is
// fetched when the first one is opened.
export function Terminal({ host, name, command, onClose }: { host: string; name: string; command: string; onClose: () => void }) {
  const at = useRef<HTMLDivElement>(null);
  const leave = useRef<HTMLButtonElement>(null);
  const [said, setSaid] = useState("Connecting…");
  useEffect(() => {
    let over = false;
    let drop = () => {};
    const run = async () => {
      const { draw } = await import("./xterm");
      if (over) return;
      const t = draw(at.current!, () => leave.current!.focus());
      const socket = new WebSocket(new URL(pathOf("workspace-terminal", { host, name }), location.href.replace(/^http/, "ws")));
      socket.binaryType = "arraybuffer";
      drop = () => {
        socket.close();
        t.dispose();
      };
      const send = (type: number, content: string) => socket.readyState === WebSocket.OPEN && socket.send(framed(type, content));
      t.onInput((text) => send(STDIN, text));
      t.onSize((rows, cols) => send(RESIZE, JSON.stringify({ rows, cols })));
      let unshown = 0;
      let ended = "";
      socket.onopen = () => {
        setSaid("");
        send(START, JSON.stringify({ argv: command.split(/\s+/).filter(Boolean), stdin: true, tty: true, ...t.size() }));
      };
      socket.onmessage = (e: MessageEvent<ArrayBuffer>) => {
        const type = new Uint8Array(e.data)[0];
        const data = new Uint8Array(e.data, 5);
        if (type === EXIT) {
          const exit = JSON.parse(new TextDecoder().decode(data));
          ended = exit.error || `It ended with code ${exit.code}.`;
        } else if ((type === STDOUT || type === STDERR) && data.length > 0) {
          unshown += data.length;
          t.write(data, () => (unshown -= data.length));
          if (unshown > waiting) {
            ended = "It printed faster than this page can show.";
            socket.close();
          }
        }
      };
      socket.onclose = () => over || setSaid(ended || "The connection broke off, or was refused.");
    };
    run().catch((e) => setSaid((e as Error).message));
    return () => {
      over = true;
      drop();
    };
  }, [host, name, command]);
  return (
    <div class="terminal">
      <div ref={at} class="screen" />
      {said && <p role="status">{said}</p>}
      <p class="dim"><button ref={leave} type="button" onClick={onClose}>Close terminal</button> Shift+Escape leaves it for this button.</p>
    </div>
  );
}

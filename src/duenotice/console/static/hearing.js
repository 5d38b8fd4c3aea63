// This tab's way to the one line of all tabs; browsers without shared workers give each tab a line of its own.
import { openLine } from "/static/line.js";

const ALIVE = 10_000;
let close = null;

/** Hear what the service says from a position on, until `leave`. */
export function join(after, hear) {
  leave();
  close = globalThis.SharedWorker ? shared(after, hear) : openLine(after, hear);
}

export function leave() {
  close?.();
  close = null;
}

function shared(after, hear) {
  const worker = new SharedWorker("/static/line_worker.js", { type: "module" }), { port } = worker;
  let own = null;
  worker.onerror = () => { own ??= openLine(after, hear); };
  port.onmessage = ({ data }) => hear(data);
  port.postMessage({ join: after });
  const alive = setInterval(() => port.postMessage({ alive: true }), ALIVE);
  return () => {
    clearInterval(alive);
    port.postMessage({ leave: true });
    port.onmessage = null;
    own?.();
  };
}

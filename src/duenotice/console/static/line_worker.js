// One line for all tabs: browsers open few connections to a host, and so does the service. While no tab is seen, none.
import { openLine } from "/static/line.js";

const KEPT = 200, GONE = 60_000, LOOK = 15_000;
const tabs = new Map(); // port -> when it was last heard
let close = null, kept = [], since = 0, state = null;

function join(port, after) {
  tabs.set(port, performance.now());
  if (!close) {
    [kept, since, state] = [[], after, null];
    close = openLine(after, hear);
    return;
  }
  if (state) port.postMessage(state);
  if (after < since) port.postMessage({ change: { all: true } }); // nobody knows what this tab has missed
  else for (const message of kept) if (message.position > after) port.postMessage(message);
}

function leave(port) {
  tabs.delete(port);
  if (tabs.size || !close) return;
  close();
  close = null;
}

function hear(message) {
  if (message.change) {
    kept.push(message);
    if (kept.length > KEPT) since = kept.shift().position;
  } else state = message;
  for (const port of tabs.keys()) port.postMessage(message);
}

setInterval(() => { // a tab that crashed does not say goodbye
  for (const [port, heard] of tabs) if (performance.now() - heard > GONE) leave(port);
}, LOOK);

onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if ("join" in data) join(port, data.join);
    else if (data.leave) leave(port);
    else if (tabs.has(port)) tabs.set(port, performance.now());
  };
};

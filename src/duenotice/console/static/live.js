// Listens for what has changed and asks for new pieces of this page; only those that it shows.
import * as clock from "/static/clock.js";
import { morph } from "/static/morph.js";

const GATHER = 60, PAUSE = 300, AGAIN = 2000, HIDDEN = 20000;
const link = document.getElementById("link"), stale = document.getElementById("stale");
const waiting = { vms: new Set(), sections: new Set(), redrawn: new Set(), board: false, page: false };
let source = null, timer = 0, lost = false, lastHeard = clock.now();

function listen() {
  source?.close();
  source = new EventSource(`/live?after=${document.body.dataset.position}`);
  source.onopen = () => heard();
  source.addEventListener("clock", (message) => {
    clock.set(JSON.parse(message.data));
    heard();
  });
  source.onmessage = (message) => {
    if (message.lastEventId) document.body.dataset.position = message.lastEventId;
    note(JSON.parse(message.data));
  };
  source.onerror = () => {
    lose();
    if (source.readyState === EventSource.CLOSED) setTimeout(again, AGAIN);
  };
}

/** The service said no, or we were away: see how things are, then listen again. */
async function again() {
  try { await wholePage(); } catch { /* it is still away */ }
  listen();
}

function heard() {
  lastHeard = clock.now();
  link.removeAttribute("data-lost");
  link.lastElementChild.textContent = "live";
  stale.hidden = true;
  if (lost) note({ all: true }); // nobody knows what was missed
  lost = false;
}

function lose() {
  if (lost) return;
  lost = true;
  link.dataset.lost = "";
  link.lastElementChild.textContent = "not live";
  const since = new Date(lastHeard).toISOString().slice(11, 19);
  stale.textContent = `The connection is lost. This page shows how things were at ${since} UTC; trying again …`;
  stale.hidden = false;
}

const main = () => document.getElementById("main");

function note(change) {
  const topics = main().dataset.live.split(" ");
  const board = document.getElementById("summary");
  waiting.page ||= change.all || change.topics.some((topic) => topics.includes(topic));
  for (const name of change.vms ?? []) {
    const cell = document.getElementById(`vm-${anchor(name)}`);
    if (cell && !cell.closest("[data-aggregated]")) waiting.vms.add(name); // others come with their section
  }
  for (const kind of ["sections", "redrawn"]) {
    for (const key of change[kind] ?? []) if (document.getElementById(`section-${anchor(key)}`)) waiting[kind].add(key);
  }
  waiting.board ||= Boolean(board && change.topics);
  if (!timer && (waiting.page || waiting.board)) timer = setTimeout(refresh, GATHER);
}

async function refresh() {
  const { vms, sections, redrawn, page } = waiting;
  const asked = [["vm", vms], ["section", sections], ["redrawn", redrawn]].flatMap(([kind, names]) => [...names].map((name) => [kind, name]));
  for (const names of [vms, sections, redrawn]) names.clear();
  waiting.page = waiting.board = false;
  try {
    if (page) await wholePage();
    else await pieces(asked);
  } catch { lose(); }
  timer = setTimeout(() => {
    timer = 0;
    if (waiting.board || waiting.page) refresh();
  }, PAUSE);
}

async function pieces(asked) {
  const fresh = await ask(`/parts?${new URLSearchParams(asked)}`);
  for (const element of [...fresh.body.children]) {
    const old = document.getElementById(element.id);
    if (old) morph(old, element);
  }
  title(document.title.replace(/^\(\d+\) /, ""));
  clock.tick();
}

/** This page again, or another of the same kind, in place of what it shows. */
export async function wholePage(url = location.href) {
  const fresh = await ask(url), focused = document.activeElement;
  morph(main(), fresh.getElementById("main"));
  document.title = fresh.title;
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  clock.tick();
}

/** How many things need somebody is in the tab's title, where it can be seen from other tabs. */
function title(plain) {
  const needed = Number(document.getElementById("attention")?.dataset.needed);
  document.title = needed ? `(${needed}) ${plain}` : plain;
}

async function ask(url) {
  const answer = await fetch(url, { headers: { "X-Part": "1" } });
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw new Error(`${url} answers ${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

const anchor = (name) => name.replace(/[^A-Za-z0-9.:-]/g, (c) => `_${c.codePointAt(0).toString(16)}_`);

function every() {
  const pause = Number(main().dataset.every);
  if (pause) setTimeout(async () => {
    try { await wholePage(); } catch { lose(); }
    every();
  }, pause);
}

// A tab that nobody sees gives its connection back: browsers have few, and so has the service.
let hiding = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => { source.close(); source = null; }, HIDDEN);
  else if (!source) again();
});

listen();
every();

// Listens for what has changed and asks for new pieces of this page; only those that it shows.
import * as clock from "/static/clock.js";
import { join, leave } from "/static/hearing.js";
import { morph } from "/static/morph.js";

const GATHER = 60, PAUSE = 300, HIDDEN = 20000, SILENCE = 8000, PATIENCE = 10000;
const link = document.getElementById("link"), stale = document.getElementById("stale");
const waiting = { vms: new Set(), sections: new Set(), redrawn: new Set(), board: false, page: false };
let joined = false, timer = 0, lost = "", lastHeard = clock.now(), lastWord = performance.now();

function listen() {
  joined = true;
  lastWord = performance.now();
  join(Number(document.body.dataset.position), hear);
}

function hear(message) {
  lastWord = performance.now();
  if (message.lost) lose(message.lost);
  else heard(message.clock);
  if (message.position) document.body.dataset.position = message.position;
  if (message.change) note(message.change);
}

/** We were away: see how things are, then listen again. */
async function again() {
  try { await wholePage(); } catch { /* it is still away */ }
  listen();
}

function heard(time) {
  if (time) clock.set(time);
  lastHeard = clock.now();
  if (!lost) return;
  lost = "";
  link.removeAttribute("data-lost");
  link.lastElementChild.textContent = "live";
  stale.hidden = true;
  delete document.body.dataset.lost;
  note({ all: true }); // nobody knows what was missed
}

const WHY = { lost: "The connection is lost.", silent: "The service does not answer.", refused: "The service has no room for this page." };

function lose(why) {
  if (why === "refused") note({ all: true }); // it answers, but does not tell: look now and then
  if (lost === why || (lost && why === "lost")) return;
  lost = why;
  clock.stop(lastHeard);
  document.body.dataset.lost = why;
  link.dataset.lost = "";
  link.lastElementChild.textContent = "not live";
  const since = new Date(lastHeard).toISOString().slice(11, 19);
  if (why === "denied") stale.replaceChildren("You are no longer signed in: your session has ended, or its token was revoked. ", signIn());
  else stale.textContent = `${WHY[why]} This page shows how things were at ${since} UTC; trying again …`;
  stale.hidden = false;
}

function signIn() {
  const way = document.createElement("a");
  way.href = `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`;
  way.textContent = "Sign in again";
  return way;
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
  } catch { lose("lost"); }
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
  const answer = await fetch(url, { headers: { "X-Part": "1" }, signal: AbortSignal.timeout(PATIENCE) });
  if (answer.status === 401) lose("denied");
  if (!answer.ok) throw new Error(`${url} answers ${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

const anchor = (name) => name.replace(/[^A-Za-z0-9.:-]/g, (c) => `_${c.codePointAt(0).toString(16)}_`);

function every() {
  const pause = Number(main().dataset.every);
  if (pause) setTimeout(async () => {
    try { await wholePage(); } catch { lose("lost"); }
    every();
  }, pause);
}

// A tab that nobody sees gives its connection back, and one that is opened in the background takes none.
let hiding = 0;
function leaveLine() {
  leave();
  joined = false;
}
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(leaveLine, HIDDEN);
  else if (!joined) again();
});
addEventListener("pagehide", leaveLine);
addEventListener("pageshow", (event) => { if (event.persisted && !document.hidden) again(); });
setInterval(() => { // what tells of the silence may itself be gone
  if (!joined || performance.now() - lastWord < SILENCE) return;
  lose("silent");
  listen();
}, 1000);

if (!document.hidden) listen();
every();

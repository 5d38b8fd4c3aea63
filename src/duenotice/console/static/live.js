// Listens for what has changed and puts new pieces in place of old ones; only those that this page shows.
import * as clock from "/static/clock.js";

const link = document.getElementById("link");
const stale = document.getElementById("stale");
const waiting = { vms: new Set(), sections: new Set(), page: false };
let timer = 0, lastHeard = Date.now();

function listen() {
  const source = new EventSource(`/live?after=${document.body.dataset.position}`);
  source.onopen = () => heard();
  source.onmessage = (message) => {
    document.body.dataset.position = message.lastEventId;
    heard();
    note(JSON.parse(message.data));
  };
  source.onerror = () => {
    lost();
    if (source.readyState === EventSource.CLOSED) setTimeout(() => { source.close(); listen(); }, 2000);
  };
}

function heard() {
  lastHeard = Date.now();
  link.removeAttribute("data-lost");
  link.lastElementChild.textContent = "live";
  stale.hidden = true;
}

function lost() {
  link.dataset.lost = "";
  link.lastElementChild.textContent = "not live";
  stale.hidden = false;
  const since = new Date(lastHeard).toLocaleTimeString();
  stale.textContent = `The connection is lost. This page shows how things were at ${since}; trying again …`;
}

function note(change) {
  for (const name of change.vms) if (document.getElementById(cellId(name))) waiting.vms.add(name);
  for (const key of change.sections) {
    const section = document.querySelector(`[data-section="${CSS.escape(key)}"]`);
    if (section && (section.dataset.aggregated || change.fleet)) waiting.sections.add(key);
  }
  waiting.page ||= concernsPage(change);
  if (!timer) timer = setTimeout(refresh, 120);
}

function concernsPage(change) {
  const marks = [...document.querySelectorAll("[data-page-live]")].map((element) => element.dataset.pageLive);
  return marks.some((mark) => {
    const [kind, ...rest] = mark.split(":");
    const id = rest.join(":");
    if (kind === "events") return change.events.length > 0;
    if (kind === "event") return change.events.includes(id);
    if (kind === "vm") return change.vms.includes(id) || change.events.length > 0;
    if (kind === "maintenances") return change.maintenances.length > 0;
    if (kind === "maintenance") return change.maintenances.includes(id);
    return kind === "audit";
  });
}

async function refresh() {
  const vms = [...waiting.vms], sections = [...waiting.sections], page = waiting.page;
  waiting.vms.clear(); waiting.sections.clear(); waiting.page = false;
  try {
    if (vms.length || sections.length || document.querySelector("[data-coming]")) await pieces(vms, sections);
    if (document.querySelector("[data-timeline]")) swap(await ask(location.href));
    if (page) await wholePage();
  } finally {
    timer = waiting.vms.size || waiting.sections.size || waiting.page ? setTimeout(refresh, 120) : 0;
  }
}

async function pieces(vms, sections) {
  const query = new URLSearchParams([...vms.map((name) => ["vm", name]), ...sections.map((key) => ["section", key])]);
  swap(await ask(`/parts?${query}`));
  recount();
}

async function ask(url) {
  const answer = await fetch(url, { headers: { "X-Part": "1" } });
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw new Error(`${url} answers ${answer.status}`);
  return answer.text();
}

function swap(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  for (const element of [...fresh.querySelectorAll("[id]")]) {
    const old = document.getElementById(element.id);
    if (!old || element.parentElement?.closest("[id]")) continue;
    if (old.tagName === "DETAILS") element.open = old.open;
    const focused = old === document.activeElement;
    const changed = old.dataset.state !== element.dataset.state;
    old.replaceWith(element);
    if (changed) element.classList.add("changed");
    if (focused) element.focus();
  }
}

async function wholePage() {
  const fresh = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  const busy = document.activeElement?.closest("form, pre");
  if (!busy) document.getElementById("main").replaceWith(fresh.getElementById("main"));
}

function recount() {
  const summary = document.getElementById("summary");
  if (!summary || document.querySelector('[data-aggregated="yes"]')) return;
  for (const entry of summary.children) {
    const count = document.querySelectorAll(`.cell[data-state="${entry.dataset.state}"]`).length;
    entry.querySelector("b").textContent = count;
    entry.classList.toggle("none", count === 0);
  }
}

const cellId = (name) => "vm-" + name.replace(/[^A-Za-z0-9_.:-]/g, (c) => `_${c.codePointAt(0).toString(16)}_`);

listen();

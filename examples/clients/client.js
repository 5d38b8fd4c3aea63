#!/usr/bin/env node
// Scheduled Events with Node 18 or newer: ask, pick what hits this VM, get ready, approve, come back.
//   client.js HOOK      the hook is called with: prepare|others-ready|restore EVENT-ID EVENT-TYPE; exit 0 means done
"use strict";
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");

const base = process.env.DUENOTICE_METADATA_ENDPOINT || "http://169.254.169.254";
const events = `${base}/metadata/scheduledevents?api-version=2020-07-01`;
const state = process.env.DUENOTICE_STATE_DIR || "/var/lib/duenotice-client"; // must survive a reboot
const approved = new Set();

// The header goes with POST too; node:http knows no proxy and follows no redirect. The built-in fetch would work too,
// but it calls itself a browser (Sec-Fetch-Mode), and metadata services refuse browsers.
function ask(url, method = "GET", body = "") {
  const headers = { Metadata: "true", "Content-Length": Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method, headers, signal: AbortSignal.timeout(3000) }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (piece) => (text += piece)).on("error", reject);
      answer.on("end", () => (answer.statusCode === 200 ? resolve(text) : reject(new Error(`HTTP ${answer.statusCode}`))));
    });
    request.on("error", reject).end(body);
  });
}

const hook = (...words) => spawnSync(process.argv[2], words, { stdio: ["ignore", "inherit", "inherit"] }).status === 0;

async function getReady(me, { EventId: id, EventType: type, EventStatus: status, Resources: hit }) {
  const begun = path.join(state, id);
  if (!fs.existsSync(begun) || fs.readFileSync(begun, "utf8") !== `prepared ${type}`) {
    fs.writeFileSync(begun, `begun ${type}`); // first, so that it is undone even if we are killed on the way
    if (!hook("prepare", id, type)) return;
    fs.writeFileSync(begun, `prepared ${type}`);
  }
  // An approval is for all VMs of the event: only its leader does it, and only when every one of them is ready.
  if (hit[0] !== me || status !== "Scheduled" || approved.has(id)) return;
  if (hit.length > 1 && !hook("others-ready", id, type)) return;
  await ask(events, "POST", JSON.stringify({ StartRequests: [{ EventId: id }] }));
  approved.add(id);
}

async function round(me) {
  // Every event counts, not only the first; NotBefore is left alone, it is empty once an event has started.
  const all = JSON.parse(await ask(events)).Events; // not an array: throws below, so no event counts as gone
  const mine = all.filter((event) => event.Resources.includes(me) && /^[0-9A-Fa-f-]+$/.test(event.EventId));
  for (const id of fs.readdirSync(state)) { // an event that is over or cancelled just disappears
    const begun = path.join(state, id);
    if (mine.some((event) => event.EventId === id)) continue;
    if (hook("restore", id, fs.readFileSync(begun, "utf8").split(" ")[1])) fs.unlinkSync(begun);
  }
  for (const event of mine) await attempt(() => getReady(me, event)); // one that fails must not keep the others waiting
}

// An error, an empty answer or a sign-in page is not "no events": leave all as it is and ask again.
const attempt = (work) => work().catch((error) => console.error(`asking again: ${error.message}`));

async function main() {
  fs.mkdirSync(state, { recursive: true });
  for (let me = ""; ; await new Promise((resolve) => setTimeout(resolve, 1000))) {
    await attempt(async () => {
      me = me || (await ask(`${base}/metadata/instance/compute/name?api-version=2021-02-01&format=text`));
      if (me) await round(me);
    });
  }
}
main();

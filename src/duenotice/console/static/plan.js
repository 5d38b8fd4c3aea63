// The form of a maintenance: what it would do is drawn while it is filled in, and targets can be ticked.
import { morph } from "/static/morph.js";

const plan = document.getElementById("plan"), on = plan?.elements.on;
const PAUSE = 250;
let timer = 0, asked = 0;

async function preview() {
  const query = new URLSearchParams(new FormData(plan)), number = ++asked;
  if (!query.get("on").trim()) return;
  const answer = await fetch(`${plan.dataset.preview}?${query}`, { headers: { "X-Part": "1" } });
  if (!answer.ok || number !== asked) return; // what was typed since is asked for already
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  morph(document.getElementById("preview"), fresh.getElementById("preview"));
}

const chosen = () => on.value.split(",").map((part) => part.trim()).filter(Boolean);

/** Ticks follow what is typed. */
function tick() {
  const names = new Set(chosen());
  for (const box of plan.querySelectorAll("[data-target]")) box.checked = names.has(box.dataset.target);
}

plan?.addEventListener("input", (event) => {
  if (event.target.matches("[data-picks]")) return narrow(event.target.value.trim().toLowerCase());
  const { target } = event.target.dataset;
  if (target) on.value = (event.target.checked ? [...chosen(), target] : chosen().filter((name) => name !== target)).join(", ");
  else tick();
  clearTimeout(timer);
  timer = setTimeout(preview, PAUSE);
});

function narrow(words) {
  for (const item of plan.querySelectorAll(".picker li")) item.hidden = !item.textContent.toLowerCase().includes(words);
}

if (plan) {
  tick();
  preview();
}

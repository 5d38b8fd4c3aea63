// The form of a maintenance: what it would do is drawn while it is filled in.
import { morph } from "/static/morph.js";

const plan = document.getElementById("plan");
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

plan?.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(preview, PAUSE);
});
if (plan) preview();

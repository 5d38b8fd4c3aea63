// The timeline: keys that zoom and move, a text about the bar that is pointed at, and a window that follows the time.
import { wholePage } from "/static/live.js";

const KEYS = { "+": "closer", "=": "closer", "-": "wider", ArrowLeft: "earlier", ArrowRight: "later", n: "to-now", Home: "to-now" };
const MOVED_BY = 40; // when "now" has come to this percent of the width, the picture moves on

document.addEventListener("keydown", async (event) => {
  const link = document.getElementById(KEYS[event.key] ?? "");
  if (!link || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  const url = link.href;
  history.replaceState(null, "", url);
  await wholePage(url);
});

for (const kind of ["focusin", "mouseover"]) document.addEventListener(kind, (event) => {
  const bar = event.target.closest?.("[data-says]"), says = document.getElementById("says");
  if (bar && says) says.textContent = bar.dataset.says;
});

let moving = false;
document.addEventListener("grown", async (event) => {
  if (moving || event.detail < MOVED_BY || !event.target.closest("[data-follows]")) return;
  moving = true;
  try { await wholePage(); } catch { /* live.js says that the service is away */ }
  setTimeout(() => { moving = false; }, 1000);
});

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

// What is pointed at, or has the focus, is told beside it.
const GAP = 14;
for (const kind of ["focusin", "mouseover", "mousemove"]) document.addEventListener(kind, (event) => {
  const bar = event.target.closest?.("[data-says]"), says = document.getElementById("says");
  if (!says) return;
  says.toggleAttribute("data-shown", Boolean(bar));
  if (!bar) return;
  says.textContent = bar.dataset.says;
  const box = bar.getBoundingClientRect(), focused = kind === "focusin";
  place(says, focused ? box.left : event.clientX, focused ? box.bottom : event.clientY);
});
for (const kind of ["focusout", "scroll"]) document.addEventListener(kind, hide, { passive: true });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

function hide() { document.getElementById("says")?.removeAttribute("data-shown"); }

/** Beside the pointer, and never outside of the window. */
function place(says, x, y) {
  const { offsetWidth: width, offsetHeight: height } = says;
  const below = y + GAP + height < innerHeight ? y + GAP : Math.max(4, y - GAP - height);
  says.style.left = `${Math.max(8, Math.min(x + GAP, innerWidth - width - 12))}px`;
  says.style.top = `${below}px`;
}

let moving = false;
document.addEventListener("grown", async (event) => {
  if (moving || event.detail < MOVED_BY || !event.target.closest("[data-follows]")) return;
  moving = true;
  try { await wholePage(); } catch { /* live.js says that the service is away */ }
  setTimeout(() => { moving = false; }, 1000);
});

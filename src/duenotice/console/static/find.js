// The search on every page: Ctrl K or / opens it, what is typed is looked for, arrows choose, Enter opens; ? has the keys.
const finder = document.getElementById("finder"), keys = document.getElementById("keys");
const text = document.getElementById("finder-text"), list = document.getElementById("finds");
const says = document.getElementById("finder-says");
const PAUSE = 70;
let timer = 0, asked = 0, active = -1, shownFor = null;

const options = () => [...list.children];

function open() {
  if (keys.open) keys.close();
  if (!finder.open) finder.showModal();
  text.select();
  look();
}

async function look() {
  const number = ++asked, wanted = text.value.trim(), query = new URLSearchParams({ q: wanted });
  let answer;
  try { answer = await fetch(`/search?${query}`, { headers: { "X-Part": "1" } }); } catch { answer = null; }
  if (number !== asked) return; // what was typed since is asked for already
  if (answer?.status === 401) location.reload();
  const fresh = new DOMParser().parseFromString(answer?.ok ? await answer.text() : "", "text/html");
  shownFor = wanted;
  list.replaceChildren(...fresh.querySelectorAll('[role="option"]'));
  const count = list.children.length;
  list.hidden = !count;
  text.setAttribute("aria-expanded", String(count > 0));
  says.textContent = !answer?.ok ? "The service does not answer." : count ? `${count} found` : "Nothing matches.";
  choose(count && wanted ? 0 : -1);
}

function choose(place) {
  const all = options();
  active = all.length ? Math.max(-1, Math.min(place, all.length - 1)) : -1;
  for (const [number, option] of all.entries()) option.setAttribute("aria-selected", String(number === active));
  if (active < 0) text.removeAttribute("aria-activedescendant");
  else text.setAttribute("aria-activedescendant", all[active].id);
  all[active]?.scrollIntoView({ block: "nearest" });
}

function go(option) {
  finder.close();
  if (option.dataset.presses) document.getElementById(option.dataset.presses)?.click();
  else location.assign(option.dataset.href);
}

const MOVES = { ArrowDown: (at, last) => (at >= last ? 0 : at + 1), ArrowUp: (at, last) => (at <= 0 ? last : at - 1) };
MOVES.PageDown = (at, last) => Math.min(last, at + 5);
MOVES.PageUp = (at) => Math.max(0, at - 5);

text?.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(look, PAUSE);
});
text?.addEventListener("keydown", (event) => {
  const move = MOVES[event.key];
  if (move) {
    choose(move(active, list.children.length - 1));
    event.preventDefault();
  } else if (event.key === "Enter" && active >= 0 && shownFor === text.value.trim()) {
    go(options()[active]);
    event.preventDefault();
  } // else the list is not there yet: the form asks the service, which opens an exact hit
});
list?.addEventListener("click", (event) => {
  const option = event.target.closest('[role="option"]');
  if (option) go(option);
});

for (const dialog of [finder, keys]) dialog?.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
document.getElementById("find")?.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  open();
});
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey) {
    event.preventDefault();
    open();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  if (event.key === "/") {
    event.preventDefault();
    open();
  } else if (event.key === "?") {
    event.preventDefault();
    keys.showModal();
  }
});

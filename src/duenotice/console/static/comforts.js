// Small helps: it asks before what cannot be undone, copies, formats JSON, closes menus, remembers folds.

document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-pretty]");
  if (button?.hasAttribute("data-copy")) await copy(button);
  else if (button) pretty(button);
  for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector(".menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

async function copy(button) {
  const text = button.closest("[data-json], .curl").querySelector("pre, code").textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch { // without https browsers have only the old way
    const field = document.body.appendChild(document.createElement("textarea"));
    field.value = text;
    field.select();
    document.execCommand("copy");
    field.remove();
    button.focus();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

function pretty(button) {
  const shown = button.closest("[data-json]").querySelector("pre"), exact = shown.dataset.exact;
  const on = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", on);
  shown.textContent = on ? visible(JSON.stringify(JSON.parse(exact), null, 2)) : exact;
}

/** Parsing undoes the escapes that the page came with: nothing may be hidden or turned around here either. */
const HIDDEN = /(?![\n\ufe00-\ufe0f])[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const visible = (text) => text.replace(HIDDEN, (found) => found.split("").map((unit) =>
  `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));

// On a narrow screen the menu scrolls: the entry of this page must be visible.
const here = document.querySelector(".top nav [aria-current]"), menu = here?.parentElement;
if (menu) menu.scrollLeft = here.offsetLeft - (menu.clientWidth - here.offsetWidth) / 2;

const folds = JSON.parse(localStorage.getItem("folds") ?? "{}");
for (const section of document.querySelectorAll("details.section")) {
  if (section.id in folds) section.open = folds[section.id];
}
document.addEventListener("click", (event) => {
  const section = event.target.closest("details.section > summary")?.parentElement;
  if (!section) return;
  folds[section.id] = !section.open; // it turns after this
  localStorage.setItem("folds", JSON.stringify(folds));
});

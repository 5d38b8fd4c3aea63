// Changes a part of the page to a fresh one, and only where they differ: focus, scrolling, typing stay.

const OURS = new Set(["open"]); // what visitors set themselves

export function morph(old, fresh) {
  if (old.isEqualNode(fresh) || old.hasAttribute("data-keep")) return;
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !OURS.has(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (!OURS.has(name) && old.getAttribute(name) !== value) {
      old.setAttribute(name, value);
      if (name === "data-state" && old.classList.contains("cell")) flash(old);
    }
  }
  children(old, fresh);
}

function children(old, fresh) {
  const named = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const alike = at && !at.id && at.nodeName === next.nodeName;
    const match = next.id ? named.get(next.id) : alike ? at : null;
    if (!match) {
      old.insertBefore(document.importNode(next, true), at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    if (match.nodeType === Node.ELEMENT_NODE) morph(match, next);
    else if (match.data !== next.data) match.data = next.data;
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function flash(cell) {
  cell.classList.remove("changed");
  requestAnimationFrame(() => cell.classList.add("changed"));
}

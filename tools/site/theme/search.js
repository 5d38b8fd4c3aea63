// Finds sections by the words that are typed. The sections come with the first focus; nothing is asked of a server.
"use strict";
const base = document.currentScript.dataset.base;
const field = document.getElementById("search");
const found = document.getElementById("found");
const MOST = 12;
let coming;

// A script and not a fetch: that also works where the site is opened as files.
function sections() {
  coming ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${base}/search/sections.js`;
    script.onload = () => resolve(window.SECTIONS);
    script.onerror = reject;
    document.head.append(script);
  });
  return coming;
}

// All words must be there. A word counts most in a title, then as a whole word, then at the beginning of one.
function score(section, words) {
  const title = section.title.toLowerCase();
  const page = section.page.toLowerCase();
  const text = section.lower ??= section.text.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const parts = text.split(word);
    const times = parts.length - 1;
    if (!title.includes(word) && !times) return 0;
    if (title.includes(word)) sum += title === word ? 40 : title.startsWith(word) ? 25 : 18;
    if (page.includes(word)) sum += 6;
    const begins = parts.slice(0, -1).some((before) => !/\w$/.test(before));
    const ends = parts.slice(1).some((after) => !/^\w/.test(after));
    sum += Math.min(times, 5) + (begins ? 3 : 0) + (begins && ends ? 3 : 0);
  }
  return sum * section.weight;
}

function part(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 50);
  const words = text.slice(at, at + 160).split(" ");
  return (at ? "… " + words.slice(1).join(" ") : words.join(" ")) + (at + 160 < text.length ? " …" : "");
}

function shown(section, words) {
  const link = document.createElement("a");
  link.href = `${base}/${section.location}`;
  const title = link.appendChild(document.createElement("b"));
  title.textContent = section.page === section.title ? section.title : `${section.page}: ${section.title}`;
  link.appendChild(document.createElement("span")).textContent = part(section.text, words[0]);
  return link;
}

async function look() {
  const asked = field.value.trim().toLowerCase();
  const words = asked.split(/\s+/).filter(Boolean);
  if (!words.length) {
    found.hidden = true;
    return;
  }
  const all = await sections().catch(() => []);
  if (asked !== field.value.trim().toLowerCase()) return; // more was typed meanwhile
  const hits = all.map((section) => [score(section, words), section]).filter(([value]) => value);
  hits.sort((a, b) => b[0] - a[0]);
  const links = hits.slice(0, MOST).map(([, section]) => shown(section, words));
  const none = all.length ? `Nothing has “${field.value.trim()}” in it.` : "The search cannot be loaded.";
  found.replaceChildren(...(links.length ? links : [none]));
  found.hidden = false;
}

field.addEventListener("focus", () => sections().catch(() => {}));
field.addEventListener("input", look);
field.form.addEventListener("submit", (event) => {
  event.preventDefault();
  found.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (event.key === "/" && !typing) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape") {
    found.hidden = true;
  } else if (/^Arrow(Up|Down)$/.test(event.key) && !found.hidden && field.form.contains(document.activeElement)) {
    event.preventDefault();
    const stops = [field, ...found.querySelectorAll("a")];
    const step = event.key === "ArrowDown" ? 1 : stops.length - 1;
    stops[(stops.indexOf(document.activeElement) + step) % stops.length].focus();
  }
});
document.addEventListener("click", (event) => {
  if (!field.form.contains(event.target)) found.hidden = true;
});

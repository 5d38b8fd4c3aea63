// The service's clock runs on in the browser: it moves every countdown, and what grows with time in a picture.
import { show, written } from "/static/zone.js";

const body = document.body.dataset;
let base = Date.parse(body.now), begun = performance.now(), speed = Number(body.speed), stopped = false;

export const now = () => base + (stopped ? 0 : (performance.now() - begun) * speed);

/** Nobody knows what time it is there: stand still at what it said last, until it says more. */
export function stop(at) {
  base = at;
  stopped = true;
  tick();
}

/** What the service says of its clock; a jump is followed, a little drift is not. */
export function set({ now: moment, speed: pace, clock: name }) {
  if (stopped || pace !== speed || Math.abs(Date.parse(moment) - now()) > 1500 * Math.max(1, pace)) {
    base = Date.parse(moment);
    begun = performance.now();
    speed = pace;
    stopped = false;
    const shown = document.getElementById("pace");
    if (shown && name !== "real") shown.textContent = name;
    tick();
  }
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

function span(seconds) {
  let left = Math.round(Math.abs(seconds));
  const parts = [];
  for (const [size, unit] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count) parts.push(count + unit);
  }
  return parts.slice(0, 2).join(" ") || "0s";
}

export function tick() {
  const parts = written(now()).split(", ");
  for (const [place, id] of ["day", "clock"].entries()) document.getElementById(id).textContent = parts[place];
  for (const element of document.querySelectorAll("[data-countdown]")) {
    const left = (Date.parse(element.dateTime) - now()) / 1000;
    element.textContent = element.dataset.countdown ? span(left) : left > 0 ? `in ${span(left)}` : `${span(left)} ago`;
  }
  show();
  for (const picture of document.querySelectorAll(".gantt[data-begin]")) grow(picture);
}
document.addEventListener("zone", tick);

function grow(picture) {
  const begin = Date.parse(picture.dataset.begin), end = Date.parse(picture.dataset.end);
  const here = (100 * (now() - begin)) / (end - begin);
  for (const line of picture.querySelectorAll("line.now")) {
    line.setAttribute("x1", `${here}%`);
    line.setAttribute("x2", `${here}%`);
  }
  for (const part of picture.querySelectorAll("[data-grows]")) {
    const width = Math.max(Number(part.dataset.least), Math.min(here, 100) - Number(part.dataset.grows));
    part.setAttribute("width", `${width}%`);
  }
  picture.dispatchEvent(new CustomEvent("grown", { bubbles: true, detail: here }));
}

setInterval(tick, speed > 1 ? 250 : 1000);
tick();

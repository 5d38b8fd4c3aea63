// The service's clock, going on in the browser; and every countdown on the page.
const body = document.body.dataset;
let base = Date.parse(body.now), begun = performance.now();
const speed = Number(body.speed);

export const now = () => base + (performance.now() - begun) * speed;

export function set(moment) {
  base = Date.parse(moment);
  begun = performance.now();
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

export function span(seconds) {
  let left = Math.round(Math.abs(seconds));
  const parts = [];
  for (const [size, unit] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count) parts.push(count + unit);
  }
  return parts.slice(0, 2).join(" ") || "0s";
}

function tick() {
  const clock = document.getElementById("clock");
  if (clock) clock.textContent = new Intl.DateTimeFormat("en-GB", {
    day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: "UTC", hour12: false,
  }).format(now()).replace(",", "");
  for (const element of document.querySelectorAll("[data-countdown]")) {
    const left = (Date.parse(element.dateTime) - now()) / 1000;
    element.textContent = left > 0 ? `in ${span(left)}` : `${span(left)} ago`;
  }
  const picture = document.querySelector("[data-timeline]");
  if (picture) {
    const begin = Date.parse(picture.dataset.begin), end = Date.parse(picture.dataset.end);
    const here = `${(100 * (now() - begin)) / (end - begin)}%`;
    for (const line of picture.querySelectorAll("line.now")) {
      line.setAttribute("x1", here);
      line.setAttribute("x2", here);
    }
  }
}

setInterval(tick, speed > 1 ? 250 : 1000);
tick();

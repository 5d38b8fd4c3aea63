// Times in UTC or in the visitor's own zone, as chosen; a tooltip always has both.
const FORM = { day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
const faces = {
  UTC: new Intl.DateTimeFormat("en-GB", { ...FORM, timeZone: "UTC" }),
  local: new Intl.DateTimeFormat("en-GB", FORM),
};
const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
let chosen = localStorage.getItem("zone") === "local" ? "local" : "UTC";

/** A moment in milliseconds as the page writes it: `15 Nov 18:04:10`; its two parts stand before and after a comma. */
export const written = (moment) => faces[chosen].format(moment);

const short = (face, moment) => face.format(moment).replace(", ", " ");
const both = (moment) => `${short(faces.UTC, moment)} UTC · ${short(faces.local, moment)} ${HERE}`;

function put(element, name, text) {
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** Every moment on the page; those that count down keep their words. */
export function show() {
  for (const element of document.querySelectorAll("time[data-at], time[data-countdown]")) {
    const moment = Date.parse(element.dateTime);
    if (Number.isNaN(moment)) continue;
    put(element, "title", both(moment));
    if (!element.hasAttribute("data-at")) continue;
    const text = short(faces[chosen], moment);
    if (element.textContent !== text) element.textContent = text;
  }
}

const button = document.getElementById("zone");

function label() {
  button.textContent = chosen === "UTC" ? "UTC" : "local";
  button.title = `Time zone: ${chosen === "UTC" ? "UTC" : HERE}. Click for ${chosen === "UTC" ? HERE : "UTC"}.`;
  button.setAttribute("aria-label", button.title);
}

button?.addEventListener("click", () => {
  chosen = chosen === "UTC" ? "local" : "UTC";
  localStorage.setItem("zone", chosen);
  label();
  document.dispatchEvent(new Event("zone"));
});
if (button) label();

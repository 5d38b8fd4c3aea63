// What every page does: theme, clock, live parts; and the small comforts of forms and pictures.
import "/static/theme.js";
import "/static/clock.js";
import "/static/live.js";

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

document.addEventListener("click", (event) => {
  const copied = event.target.closest(".copy");
  if (copied) navigator.clipboard?.writeText(copied.textContent);
});

for (const kind of ["focusin", "mouseover"]) document.addEventListener(kind, (event) => {
  const bar = event.target.closest?.("[data-says]"), says = document.getElementById("says");
  if (bar && says) says.textContent = bar.dataset.says;
});

const plan = document.getElementById("plan");
if (plan) {
  let timer = 0;
  const preview = async () => {
    const query = new URLSearchParams(new FormData(plan));
    if (!query.get("on")) return;
    const answer = await fetch(`${plan.dataset.preview}?${query}`, { headers: { "X-Part": "1" } });
    if (answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("preview");
      document.getElementById("preview").replaceWith(fresh);
    }
  };
  plan.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(preview, 250); });
  preview();
}

// Tables in which rows are chosen: one box for all of them, or for those of a group, and how many are chosen.
const boxes = (place) => [...place.querySelectorAll('input[name="row"]')];
const reach = (all) => (all.closest("thead") ? all.closest("table") : all.closest("tbody"));

function count() {
  for (const all of document.querySelectorAll("input[data-all]")) {
    const rows = boxes(reach(all)), on = rows.filter((box) => box.checked).length;
    if (all.hidden === rows.length > 0) all.hidden = !rows.length; // writing it even unchanged would call the observer for ever
    all.checked = rows.length > 0 && on === rows.length;
    all.indeterminate = on > 0 && on < rows.length;
  }
  for (const place of document.querySelectorAll("[data-chosen]")) {
    const on = boxes(place.closest("form")).filter((box) => box.checked).length;
    const said = on ? `${on.toLocaleString("en")} chosen` : "";
    if (place.textContent !== said) place.textContent = said;
  }
}

document.addEventListener("change", (event) => {
  if (event.target.matches("input[data-all]")) for (const box of boxes(reach(event.target))) box.checked = event.target.checked;
  if (event.target.matches('input[data-all], input[name="row"]')) count();
});
new MutationObserver(count).observe(document.getElementById("main"), {
  childList: true, subtree: true, attributeFilter: ["hidden"], // a fresh page comes with its boxes hidden
});
count();

// Small helps of pages: messages go away by themselves, and a chosen file is shown before it is sent.
const GOES_AFTER = 8000;

for (const note of document.querySelectorAll("#said .note")) {
  const close = document.createElement("button");
  close.type = "button";
  close.className = "quiet close";
  close.textContent = "×";
  close.setAttribute("aria-label", "Close this message");
  close.addEventListener("click", () => note.remove());
  note.append(close);
  // What failed stays until it is closed, and nothing goes while somebody points at it.
  if (note.classList.contains("good")) setTimeout(function leave() {
    if (note.matches(":hover, :focus-within")) setTimeout(leave, GOES_AFTER / 4);
    else note.remove();
  }, GOES_AFTER);
}

document.addEventListener("change", async (event) => {
  const file = event.target.dataset?.into && event.target.files[0];
  if (file) document.getElementById(event.target.dataset.into).value = await file.text();
});

"use strict";
/* A key presses the button that shows it; not while somebody types a note, nor with Ctrl, Alt, Cmd, nor if it is held. */

let isSent = false;
const note = document.getElementById("note");
const progress = document.getElementById("progress");

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
  if (event.target.matches("input")) {
    if (event.target !== note || !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault();
    note.blur();
    return;
  }
  const typed = event.key.toLowerCase();
  const key = /^[a-z0-9]$/.test(typed) ? typed : event.code.slice(-1).toLowerCase(); // Cyrillic, digits of AZERTY
  const button = [...document.querySelectorAll("footer button:enabled")].find((each) => each.value === key);
  if (key === "w" && note) note.focus();
  else if (button) button.click();
  else return;
  event.preventDefault();
});

/* A second key before the next row is there would be a label of a row that nobody has seen. */
addEventListener("submit", (event) => {
  if (isSent) event.preventDefault();
  isSent = true;
});
addEventListener("pageshow", () => {
  isSent = false;
});

if (progress) {
  const words = progress.textContent;
  progress.textContent = "";
  requestAnimationFrame(() => {
    progress.textContent = words; // a screen reader says what changes
  });
}

"use strict";
/* Keys: j and k walk, Enter opens, Esc closes, / searches, ? helps; not while somebody types, nor with Ctrl, Alt, Cmd. */

const KEYS = {
  j: () => walk(1),
  k: () => walk(-1),
  "/": () => toSearch(),
  "?": () => at("help").showModal(),
  Escape: () => {
    if (opened !== null) closeItem();
  },
};

function setUpKeys() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || at("help").open) return;
    const isTyping = event.target.matches("input:not([type='checkbox']), select, textarea");
    if (isTyping && event.key === "Escape") event.target.blur();
    if (isTyping || !Object.hasOwn(KEYS, event.key)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  at("show-help").addEventListener("click", () => at("help").showModal());
  at("hide-help").addEventListener("click", () => at("help").close());
}

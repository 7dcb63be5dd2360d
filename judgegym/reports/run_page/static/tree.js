"use strict";
/* A JSON value as a tree that opens and closes. */

const OPEN_DEPTH = 2;
const MOST_ENTRIES = 200;

function treeOf(value, depth = 0) {
  if (value === null || typeof value !== "object") return leaf(value);
  const entries = Array.isArray(value) ? value.map((item, place) => [String(place + 1), item]) : Object.entries(value);
  if (entries.length === 0) return leaf(value);
  const list = make("ul", { class: "tree" });
  const show = (from, to) => list.append(...entries.slice(from, to).map(([name, item]) => branch(name, item, depth)));
  show(0, MOST_ENTRIES);
  if (entries.length <= MOST_ENTRIES) return list;
  const rest = make("button", { type: "button" }, `Show ${whole(entries.length - MOST_ENTRIES)} more`);
  rest.addEventListener("click", () => {
    rest.remove();
    show(MOST_ENTRIES, entries.length);
  });
  return make("div", {}, list, rest);
}

function branch(name, value, depth) {
  const isBranch = value !== null && typeof value === "object" && Object.keys(value).length > 0;
  if (!isBranch) return make("li", {}, inline(name, { class: "tree-name" }), " ", leaf(value));
  const size = Object.keys(value).length;
  const summary = make(
    "summary",
    {},
    inline(name, { class: "tree-name" }),
    make("span", { class: "note" }, ` (${size})`),
  );
  return make(
    "li",
    {},
    folded(summary, () => [treeOf(value, depth + 1)], depth < OPEN_DEPTH),
  );
}

function leaf(value) {
  if (typeof value !== "string") {
    const words = Array.isArray(value)
      ? "(empty list)"
      : value === null
        ? "none"
        : typeof value === "object"
          ? "(empty)"
          : value;
    return make("span", { class: "tree-value" }, String(words));
  }
  return value.length > 80 || value.includes("\n") ? plainText(value) : inline(value, { class: "tree-text" });
}

/** What is folded is made when it is first opened. */
function folded(summary, build, isOpen = false) {
  const details = make("details", {}, summary);
  let isBuilt = false;
  const fill = () => {
    if (isBuilt || !details.open) return;
    isBuilt = true;
    details.append(...build());
    details.dispatchEvent(new CustomEvent("filled", { bubbles: true }));
  };
  details.open = isOpen;
  fill();
  details.addEventListener("toggle", fill);
  return details;
}

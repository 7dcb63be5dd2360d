"use strict";
/* The words that were searched for, shown where they stand: in the texts of the opened item, and on what is folded. */

let searched = [];

/** Remember what a folded part contains, so that it can say that the search found something in it. */
function withTexts(details, value) {
  if (searched.length > 0 && textsOf(value).some((text) => searched.some((term) => text.toLowerCase().includes(term))))
    details.querySelector("summary").append(" ", make("span", { class: "badge found" }, "found here"));
  return details;
}

/** Highlight the words in what is shown; browsers without custom highlights show none. */
function highlightIn(root) {
  if (typeof Highlight === "undefined" || CSS.highlights === undefined) return;
  CSS.highlights.delete("searched");
  if (searched.length === 0) return;
  const highlight = new Highlight();
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() && highlight.size < 2000) {
    const lowered = walker.currentNode.data.toLowerCase();
    if (lowered.length !== walker.currentNode.data.length) continue; // a few capital letters grow: places would shift
    for (const term of searched) {
      for (let place = lowered.indexOf(term); place !== -1; place = lowered.indexOf(term, place + term.length)) {
        const range = new Range();
        range.setStart(walker.currentNode, place);
        range.setEnd(walker.currentNode, place + term.length);
        highlight.add(range);
      }
    }
  }
  CSS.highlights.set("searched", highlight);
}

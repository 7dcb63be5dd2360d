"use strict";
/* A row of the list, and the line of facts that heads an opened item. */

function rowOf(position, place, count, href) {
  const item = items[position];
  const link = make(
    "a",
    { href, class: "row-link" },
    make("span", { class: "row-id" }, inline(item.id)),
    make("span", { class: "row-category" }, item.category === null ? "" : inline(item.category)),
    make("span", { class: "row-outcome" }, outcome(item, shortLabel(item.label)), ordersSign(item)),
    make("span", { class: "row-score number" }, scoreWords(item, position)),
    make("span", { class: "row-length number" }, whole(item.length), make("span", { class: "unit" }, " chars")),
    make("span", { class: "row-seconds number" }, seconds(item.seconds)),
    make("span", { class: "row-cost number" }, item.judge_cost === null ? "" : dollars(item.judge_cost)),
    make("span", { class: "row-start" }, inline(item.start)),
  );
  return make("li", { class: "row", "aria-posinset": place + 1, "aria-setsize": count }, link);
}

function outcome(item, label = item.label) {
  const words = item.failed || label === null ? item.status : label;
  const size = words.length > LONG_LABEL ? " long" : "";
  return make("span", { class: `badge ${tone(item)}${size}` }, inline(words));
}

const LONG_LABEL = 24;
let equalWords = null;

/** A long label without the words that the labels of all rows begin with: the list has room for what differs. */
function shortLabel(label) {
  if (label === null || label.length <= LONG_LABEL) return label;
  equalWords ??= countEqualWords(items.filter((item) => !item.failed && item.label !== null).map((item) => item.label));
  return equalWords === 0 ? label : `… ${label.split(" ").slice(equalWords).join(" ")}`;
}

/** How many words all labels begin with; at least one word of each is left. */
function countEqualWords(labels) {
  const [first, ...others] = labels.map((label) => label.split(" "));
  let count = 0;
  while (count < first.length - 1 && others.every((words) => count < words.length - 1 && words[count] === first[count]))
    count += 1;
  return labels.length < 2 ? 0 : count;
}

/** The colour of an outcome; the words say the same. */
function tone(item) {
  if (item.failed) return "failed";
  if (item.label === null) return "plain";
  return item.value === 1 ? "won" : item.value === 0 ? "lost" : "plain";
}

function ordersSign(item) {
  if (item.orders_disagree !== true) return null;
  const words = make("span", { class: "orders-words" }, " orders disagree");
  return make("span", { class: "orders", title: "the orders of the answers led to different verdicts" }, "⇄", words);
}

function scoreWords(item, position) {
  const scores = index.scores[position] ?? [];
  if (scores.length > 0) return make("bdi", {}, scores.map((each) => (each === null ? "–" : score(each))).join("  "));
  return item.score === null ? "–" : score(item.score);
}

"use strict";
/* Which items are shown, and in which order. A filter is a parameter of the address; one that is absent lets all pass. */

const FAILED = "!failed";

const PASSES = {
  category: (item, wanted) => (item.category ?? "") === wanted,
  outcome: (item, wanted) => (item.label ?? "") === wanted,
  status: (item, wanted) => (wanted === FAILED ? item.failed : item.status === wanted),
  orders: (item) => item.orders_disagree === true,
  gold: (item) => item.gold_differs === true,
  min: (item, least) => item.score !== null && item.score >= Number(least),
  max: (item, most) => item.score !== null && item.score <= Number(most),
};

const SORTS = {
  worst: (item) => (item.failed ? -Infinity : (item.value ?? item.score)),
  score: (item) => item.score,
  length: (item) => item.length,
  cost: (item) => item.judge_cost,
  seconds: (item) => item.seconds,
};

/** The positions of the items to show. */
function chosen(state, search) {
  const filters = Object.entries(PASSES).filter(([name]) => state[name] !== undefined);
  const positions = [];
  for (const [position, item] of items.entries()) {
    if (search !== null && !search.matches[position]) continue;
    if (filters.every(([name, passes]) => passes(item, state[name]))) positions.push(position);
  }
  return sorted(positions, state);
}

/** Items without the value come last, whatever the direction; those that are equal keep their order. */
function sorted(positions, state) {
  const direction = state.reverse === undefined ? 1 : -1;
  const value = SORTS[state.sort];
  if (value === undefined) return direction === 1 ? positions : positions.reverse();
  return positions.sort((one, other) => {
    const [a, b] = [value(items[one]), value(items[other])];
    if (a === null || b === null) return (a === null) - (b === null) || one - other;
    return direction * (a > b) - direction * (a < b) || one - other;
  });
}

/** The different values of a field, the most frequent first, each with its count. */
function valuesOf(field) {
  const counts = new Map();
  for (const item of items) counts.set(item[field] ?? "", (counts.get(item[field] ?? "") ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1]);
}

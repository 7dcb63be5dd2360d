"use strict";
/* The part of the address after `#`: the opened item, then filters and order. `#ID?category=math&sort=score` */

const PARAMETERS = ["q", "category", "outcome", "status", "orders", "gold", "min", "max", "sort", "reverse"];

/** What an address shows: `id` (null: the list) and the parameters it has. */
function readAddress(hash = location.hash) {
  const [coded, parameters] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const values = new URLSearchParams(parameters ?? "");
  const state = { id: coded === "" ? null : decoded(coded) };
  for (const name of PARAMETERS) if (values.has(name)) state[name] = values.get(name);
  for (const name of ["min", "max"]) if (state[name] === "" || Number.isNaN(Number(state[name]))) delete state[name];
  return state;
}

function addressOf(state) {
  const values = new URLSearchParams();
  for (const name of PARAMETERS) if (state[name] !== undefined) values.set(name, state[name]);
  const id = state.id === null ? "" : encodeURIComponent(state.id.replace(/\p{Surrogate}/gu, "\ufffd"));
  return `#${id}${values.size === 0 ? "" : `?${values}`}`;
}

/** The address that reproduces what is shown, from anywhere. */
function linkTo(state) {
  return location.href.replace(/#.*/s, "") + addressOf(state);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

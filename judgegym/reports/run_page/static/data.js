"use strict";
/* The data in the file: summaries of all items, and what they open to, unpacked when it is needed. */

const KEPT_CHUNKS = 3;

const index = JSON.parse(at("index").textContent);
const items = index.items;
const positionOf = new Map(items.map((item, position) => [item.id, position]));

const unpacking = new Map();

/** What an item opens to. */
async function detailOf(position) {
  let chunk = index.chunks.length - 1;
  while (index.chunks[chunk] > position) chunk -= 1;
  return (await detailsOfChunk(chunk))[position - index.chunks[chunk]];
}

/** The details of a chunk; the last ones that were used are kept. */
function detailsOfChunk(chunk) {
  const known = unpacking.get(chunk) ?? unpacked(at(`chunk-${chunk}`).textContent);
  unpacking.delete(chunk);
  unpacking.set(chunk, known);
  if (unpacking.size > KEPT_CHUNKS) unpacking.delete(unpacking.keys().next().value);
  return known;
}

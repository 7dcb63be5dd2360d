"use strict";
/* The data in the file: summaries of all items, and what they open to, unpacked when it is needed. */

const KEPT_CHUNKS = 3;

const index = JSON.parse(at("index").textContent);
const items = index.items;
const positionOf = new Map(items.map((item, position) => [item.id, position]));
const canUnpack = typeof DecompressionStream !== "undefined";
const CANNOT_UNPACK =
  "This browser cannot unpack the texts in this file, since it has no DecompressionStream. " +
  "Open the file in Chrome or Edge 80, Firefox 113, Safari 16.4 or a later version.";

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

async function unpacked(coded) {
  if (!canUnpack) throw new Error(CANNOT_UNPACK);
  const stream = new Blob([bytesOf(coded)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function bytesOf(coded) {
  if (typeof Uint8Array.fromBase64 === "function") return Uint8Array.fromBase64(coded);
  const letters = atob(coded);
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place += 1) bytes[place] = letters.charCodeAt(place);
  return bytes;
}

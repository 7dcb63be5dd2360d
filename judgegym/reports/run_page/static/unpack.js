"use strict";
/* What is packed in the file: JSON, compressed, in base64. */

const canUnpack = typeof DecompressionStream !== "undefined";
const CANNOT_UNPACK =
  "This browser cannot unpack the texts in this file, since it has no DecompressionStream. " +
  "Open the file in Chrome or Edge 80, Firefox 113, Safari 16.4 or a later version.";

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

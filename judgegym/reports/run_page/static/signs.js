"use strict";
/* Signs for characters that show nothing, or that change how others show: no text can hide or turn around. */

const UNSEEN = new RegExp(
  "(?:[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5" +
    "\\u180b-\\u180f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb" +
    "\\u{e0000}-\\u{e0fff}\\p{Surrogate}]|\\r(?!\\n)" +
    // The joiners belong to emoji and to scripts such as Persian and Hindi: between their letters they stay.
    "|(?<![\\p{L}\\p{M}\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\ufe0f])[\\u200c\\u200d]" +
    "|(?<=[\\p{Script=Latin}])[\\u200c\\u200d]|[\\u200c\\u200d](?![\\p{L}\\p{M}\\p{Extended_Pictographic}]))+",
  "gu",
);
const NAMES = new Map([
  [0x00, "NUL"],
  [0x07, "BEL"],
  [0x08, "BS"],
  [0x0d, "CR"],
  [0x1b, "ESC"],
  [0x7f, "DEL"],
  [0xad, "SHY"],
  [0x200b, "ZWSP"],
  [0x200c, "ZWNJ"],
  [0x200d, "ZWJ"],
  [0x200e, "LRM"],
  [0x200f, "RLM"],
  [0x2028, "LS"],
  [0x2029, "PS"],
  [0x202a, "LRE"],
  [0x202b, "RLE"],
  [0x202c, "PDF"],
  [0x202d, "LRO"],
  [0x202e, "RLO"],
  [0x2060, "WJ"],
  [0x2066, "LRI"],
  [0x2067, "RLI"],
  [0x2068, "FSI"],
  [0x2069, "PDI"],
  [0xfeff, "BOM"],
]);

const MOST_SIGNS = 1000; // in one text: each is an element

/** The nodes of a text: text nodes, and a sign for each run of characters that cannot be seen. */
function signed(text) {
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(UNSEEN)) {
    if (found.index > end) nodes.push(document.createTextNode(text.slice(end, found.index)));
    nodes.push(sign(found[0]));
    end = found.index + found[0].length;
    if (nodes.length >= 2 * MOST_SIGNS) break;
  }
  const rest = text.slice(end);
  if (rest !== "")
    nodes.push(document.createTextNode(nodes.length < 2 * MOST_SIGNS ? rest : rest.replace(UNSEEN, "·")));
  return nodes;
}

/** A text within a line, isolated: its direction changes nothing around it. */
function inline(text, attributes = {}) {
  return make("bdi", attributes, ...signed(text));
}

function sign(run) {
  const codes = Array.from(run, (character) => character.codePointAt(0));
  const all = codes.every((code) => code === codes[0]);
  const words = all
    ? [named(codes[0]) + (codes.length > 1 ? ` ×${whole(codes.length)}` : "")]
    : codes.slice(0, 4).map(named);
  if (!all && codes.length > 4) words.push(`+${whole(codes.length - 4)}`);
  const numbers = codes.slice(0, 8).map(numbered).join(" ");
  return make("span", { class: "sign", title: `characters that cannot be seen: ${numbers}` }, words.join(" "));
}

function named(code) {
  return NAMES.get(code) ?? numbered(code);
}

function numbered(code) {
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

"use strict";
/* Markdown as elements: headings, lists, quotes, code, tables, emphasis. HTML in it stays text, links and images are
   shown with their addresses and lead nowhere: so nothing that a model writes can run, load or be followed. Each step is
   linear in the text's length, and both the length and the depth are limited. No library does it: those that are well
   kept write HTML, which this page does not read, and are larger than all its scripts. */

const MARKDOWN_LIMIT = 50_000;
const DEEPEST = 8;
const BULLET = /^( *)(?:[-*+]|(\d{1,9})[.)])(?: +|$)/;
const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const RULE = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const DELIMITER_ROW = /^\|? *:?-+:? *(?:\| *:?-+:? *)*\|?$/; // of a line without spaces around it

function markdownOf(text) {
  const lines = text.slice(0, MARKDOWN_LIMIT).replaceAll("\r\n", "\n").split("\n");
  const shown = make("div", { class: "markdown", dir: "auto" }, ...blocksOf(lines, 0));
  if (text.length > MARKDOWN_LIMIT) {
    const left = counted(text.length - MARKDOWN_LIMIT, "character");
    shown.append(make("p", { class: "note" }, `The remaining ${left} are shown only in the plain text.`));
  }
  return shown;
}

function blocksOf(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const [block, next] = lines[at].trim() === "" ? [null, at + 1] : blockAt(lines, at, depth);
    if (block !== null) blocks.push(block);
    at = next;
  }
  return blocks;
}

/** The block that begins in this line, and the line after it. */
function blockAt(lines, at, depth) {
  const line = lines[at];
  const heading = /^ {0,3}(#{1,6})(?: +|$)/.exec(line);
  if (heading) {
    const content = line.slice(heading[0].length).replace(/ #+ *$/, "");
    return [make(`h${Math.min(heading[1].length + 2, 6)}`, {}, ...spansOf(content, 0)), at + 1];
  }
  if (FENCE.test(line)) return fenceBlock(lines, at);
  if (RULE.test(line)) return [make("hr"), at + 1];
  if (depth < DEEPEST && /^ {0,3}>/.test(line)) return quoteBlock(lines, at, depth);
  if (depth < DEEPEST && BULLET.test(line)) return listBlock(lines, at, depth);
  if (line.includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && DELIMITER_ROW.test(lines[at + 1].trim()))
    return tableBlock(lines, at);
  return paragraphBlock(lines, at, depth);
}

function fenceBlock(lines, at) {
  const [, fence] = FENCE.exec(lines[at]);
  const isEnd = (line) => line.startsWith(fence) && line === fence[0].repeat(line.length);
  let end = at + 1;
  while (end < lines.length && !isEnd(lines[end].trim())) end += 1;
  return [make("pre", {}, make("code", {}, ...signed(lines.slice(at + 1, end).join("\n")))), end + 1];
}

function quoteBlock(lines, at, depth) {
  let end = at;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return [make("blockquote", {}, ...blocksOf(inner, depth + 1)), end];
}

function listBlock(lines, at, depth) {
  const [, indent, number] = BULLET.exec(lines[at]);
  const isNext = (line) => {
    const bullet = BULLET.exec(line);
    if (bullet === null || RULE.test(line) || (bullet[2] === undefined) !== (number === undefined)) return false;
    return Math.abs(bullet[1].length - indent.length) <= 1;
  };
  const isInside = (line) => line.startsWith(`${indent}  `) && line.trim() !== "";
  const items = [];
  let end = at;
  while (end < lines.length) {
    const line = lines[end];
    const following = lines[end + 1] ?? "";
    if (isNext(line)) items.push([line.slice(BULLET.exec(line)[0].length)]);
    else if (isInside(line)) items.at(-1).push(line.slice(indent.length + 2).replace(/^ (?! )/, ""));
    else if (line.trim() === "" && (isNext(following) || isInside(following))) items.at(-1).push("");
    else break;
    end += 1;
  }
  const children = items.map((item) => make("li", {}, ...itemOf(item, depth)));
  return [number === undefined ? make("ul", {}, ...children) : make("ol", { start: Number(number) }, ...children), end];
}

function itemOf(lines, depth) {
  const blocks = blocksOf(lines, depth + 1);
  if (blocks.length > 0 && blocks[0].tagName === "P") blocks.splice(0, 1, ...blocks[0].childNodes);
  return blocks;
}

function tableBlock(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const row = (line, tag) => make("tr", {}, ...cellsOf(line).map((cell) => make(tag, {}, ...spansOf(cell, 0))));
  const head = make("thead", {}, row(lines[at], "th"));
  const body = make("tbody", {}, ...lines.slice(at + 2, end).map((line) => row(line, "td")));
  const shown = { class: "scroll", tabindex: 0, role: "group", "aria-label": "table" };
  return [make("div", shown, make("table", {}, head, body)), end];
}

function cellsOf(line) {
  return line
    .trim()
    .replace(/^\|/, "")
    .replace(/\|$/, "")
    .split("|")
    .map((cell) => cell.trim());
}

function paragraphBlock(lines, at, depth) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== "" && !/^ {0,3}(?:#{1,6} |>|`{3}|~{3})/.test(lines[end])) {
    if (RULE.test(lines[end]) || (depth < DEEPEST && BULLET.test(lines[end]))) break;
    end += 1;
  }
  return [
    make(
      "p",
      {},
      ...spansOf(
        lines
          .slice(at, end)
          .map((line) => line.trimStart())
          .join("\n"),
        0,
      ),
    ),
    end,
  ];
}

const SPAN = /\\[!-/:-@[-`{-~]|`+|\*\*|__|~~|\*|_|!?\[/g;
const LINK =
  /(!?)\[([^[\]]{0,1000})\]\(\s{0,9}<?([^()\s<>]{0,2000}(?:\([^()\s<>]{0,500}\)[^()\s<>]{0,500}){0,3})>?(?:\s{1,9}"[^"]{0,500}")?\s{0,9}\)/y;
const TAG_OF = { "**": "strong", __: "strong", "*": "em", _: "em", "~~": "del" };

/** The nodes of a line's text: emphasis, code, links; a delimiter without its counterpart is text. */
function spansOf(text, depth) {
  if (depth >= DEEPEST) return signed(text);
  const nodes = [];
  const unclosed = new Set();
  let end = 0;
  SPAN.lastIndex = 0;
  for (let found = SPAN.exec(text); found !== null; found = SPAN.exec(text)) {
    const span = unclosed.has(found[0]) ? null : spanAt(text, found, depth, unclosed);
    const next = span === null ? found.index + found[0].length : span[1];
    if (span !== null) {
      nodes.push(...signed(text.slice(end, found.index)), ...span[0]);
      end = next;
    }
    SPAN.lastIndex = next; // `spansOf` of an inner text has moved it
  }
  nodes.push(...signed(text.slice(end)));
  return nodes;
}

/** The nodes that begin with this delimiter, and the place after them; null if it is text. */
function spanAt(text, found, depth, unclosed) {
  const [delimiter] = found;
  const start = found.index + delimiter.length;
  if (delimiter[0] === "\\") return [[document.createTextNode(delimiter[1])], start];
  if (delimiter.endsWith("[")) return linkAt(text, found.index);
  if (delimiter[0] !== "`" && /\s/.test(text[start] ?? "")) return null;
  const end = closing(text, delimiter, start);
  if (end === -1) unclosed.add(delimiter);
  if (end <= start) return null;
  const inner = text.slice(start, end);
  if (delimiter[0] === "`")
    return [[make("code", {}, ...signed(inner.replace(/^ (.+) $/, "$1")))], end + delimiter.length];
  if (delimiter[0] === "_" && /[\p{L}\p{N}]/u.test(text[found.index - 1] ?? "")) return null;
  return [[make(TAG_OF[delimiter], {}, ...spansOf(inner, depth + 1))], end + delimiter.length];
}

function closing(text, delimiter, start) {
  let end = text.indexOf(delimiter, start);
  while (end !== -1) {
    const isLonger = text[end + delimiter.length] === delimiter[0] && delimiter !== "**";
    const isBegun = delimiter[0] !== "`" && /\s/.test(text[end - 1]);
    if (!isLonger && !isBegun) return delimiter === "**" && text[end + 2] === "*" ? end + 1 : end;
    while (isLonger && text[end] === delimiter[0]) end += 1;
    end = text.indexOf(delimiter, isLonger ? end : end + delimiter.length);
  }
  return -1;
}

function linkAt(text, at) {
  LINK.lastIndex = at;
  const link = LINK.exec(text);
  if (link === null) return null;
  const [whole, image, label, address] = link;
  const words = image === "" ? label : `image: ${label}`;
  const nodes = [
    make("span", { class: "link" }, ...signed(words)),
    make("span", { class: "note" }, " (", inline(address), ")"),
  ];
  return [nodes, at + whole.length];
}

"use strict";
/* Texts of models: as they are, or with their Markdown rendered; long ones in parts. */

const PART = 50_000;

/** A text with its title, its length, and buttons to copy it and to see its Markdown. */
function textBox(title, text, { markAt = null, note = null, part = PART } = {}) {
  const body = make("div", { class: "text-body" });
  const rendered = make("button", { type: "button", "aria-pressed": "false" }, "Rendered");
  const show = (markdown) => {
    rendered.setAttribute("aria-pressed", String(markdown));
    body.replaceChildren(markdown ? markdownOf(text) : plainText(text, markAt, part));
  };
  rendered.addEventListener("click", () => show(rendered.getAttribute("aria-pressed") === "false"));
  show(false);
  return make(
    "section",
    { class: "text-box", "aria-label": title },
    make(
      "div",
      { class: "text-title" },
      make("h4", {}, inline(title)),
      make("span", { class: "note" }, counted(text.length, "character"), note === null ? "" : ` · ${note}`),
      make(
        "span",
        { class: "text-actions" },
        rendered,
        copyButton("Copy", () => text),
      ),
    ),
    body,
  );
}

/** The text as it is, its characters marked from `markAt[0]` to `markAt[1]` (code points). */
function plainText(text, markAt = null, part = PART) {
  const [from, to] = markAt === null ? [text.length, text.length] : unitsOf(text, markAt);
  const shown = make("pre", { dir: "auto" });
  const rest = make("button", { type: "button" });
  const body = make("div", {}, shown, rest);
  let end = 0;
  const showUntil = (next) => {
    if (next < text.length && isInsidePair(text, next)) next += 1;
    for (const [start, stop, marked] of [
      [end, from, false],
      [from, to, true],
      [to, text.length, false],
    ]) {
      const piece = text.slice(Math.max(start, end), Math.min(stop, next));
      if (piece === "") continue;
      shown.append(...(marked ? [make("mark", { title: "the verdict" }, ...signed(piece))] : signed(piece)));
    }
    end = Math.min(next, text.length);
    if (end === text.length) rest.remove();
    rest.textContent = `Show more: ${counted(text.length - end, "character")} left`;
  };
  rest.addEventListener("click", () => showUntil(end + 4 * PART));
  showUntil(markAt === null ? part : Math.max(part, to + 500));
  if (text === "") shown.append(make("span", { class: "note" }, "(empty)"));
  return body;
}

/** Places in code points as places in JavaScript's units, of which characters beyond U+FFFF take two. */
function unitsOf(text, places) {
  return places.map((place) => {
    let unit = 0;
    for (let point = 0; point < place && unit < text.length; point += 1) unit += isInsidePair(text, unit + 1) ? 2 : 1;
    return unit;
  });
}

function isInsidePair(text, place) {
  const before = text.charCodeAt(place - 1);
  const after = text.charCodeAt(place);
  return before >= 0xd800 && before < 0xdc00 && after >= 0xdc00 && after < 0xe000;
}

/** A button that copies what `read` returns, and says so. */
function copyButton(label, read) {
  const button = make("button", { type: "button" }, label);
  button.addEventListener("click", async () => {
    button.textContent = (await copied(read())) ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = label), 1500);
  });
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

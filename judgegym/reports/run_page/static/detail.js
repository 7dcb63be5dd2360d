"use strict";
/* What an item opens to. */

const BESIDE = /^(baseline|reference)/i;

function detailParts(item, detail, position) {
  const isGroup = index.kind === "groups";
  const beside = detail.texts.filter((text) => BESIDE.test(text.title));
  const others = detail.texts.filter((text) => !BESIDE.test(text.title));
  return [
    factsOf(item, position),
    detail.error === null ? null : make("p", { class: "error" }, make("strong", {}, "Failed: "), inline(detail.error)),
    section("Verdict", verdictParts(detail)),
    section("Parts of the reward", partsTable(detail.judgment)),
    section("Criteria", criteriaTable(detail.judgment)),
    section(
      "Conversation",
      detail.conversation.map((message) => textBox(message.title, message.text)),
    ),
    section(
      "Images",
      (detail.images ?? []).map((image) => imageOf(image)),
    ),
    section(
      "Texts of the row",
      others.map((text) => foldedText(text.title, text.text)),
    ),
    isGroup
      ? section("Rollouts", rolloutsOf(detail, beside), detail.comparison === "" ? null : detail.comparison)
      : section(answersTitle(detail, beside), [answersOf(detail, beside)]),
    section(
      "Calls",
      detail.calls.map((call) => callView(call)),
      "What was asked and answered, in the order of the answers",
    ),
    section("Judgment", detail.judgment === null ? [] : [judgmentOf(detail)]),
    section("Critique", detail.critique === null ? [] : [treeOf(detail.critique)]),
  ].filter((part) => part !== null);
}

/** An image with its mark: drawn from data on the page, and never from an address, which is shown as text. */
function imageOf(image) {
  const isHere = /^data:image\/(png|jpeg|gif|webp);base64,/.test(image.data);
  const shown = isHere ? make("img", { src: image.data, alt: image.title }) : make("code", {}, inline(image.url));
  return make("figure", { class: "image" }, make("figcaption", { class: "note" }, inline(image.title)), shown);
}

/** The verdict in words, and the judge's texts, of long ones the beginning. */
function verdictParts(detail) {
  const words = detail.verdict.map((sentence) => make("p", { class: "verdict" }, inline(sentence)));
  const said = detail.said.map((text) => make("div", { class: "column" }, textBox(text.title, text.text, { part: 600 })));
  return said.length === 0 ? words : [...words, make("div", { class: "columns" }, ...said)];
}

/** What was found of each criterion, where the judgment has a list of them; several votes are all named. */
function criteriaTable(judgment) {
  const listed = Array.isArray(judgment?.criteria) ? judgment.criteria : [];
  const criteria = listed.filter((one) => typeof one?.verdict === "string");
  if (criteria.length === 0) return [];
  const words = (value) => (value === null || value === undefined ? "" : String(value));
  const cells = (tag, values) => make("tr", {}, ...values.map((value) => make(tag, {}, inline(words(value)))));
  const rows = criteria.map((one) => {
    const votes = Array.isArray(one.votes) && one.votes.length > 1 ? ` (${one.votes.join(", ")})` : "";
    const criterion = `${words(one.name)}: ${words(one.text)}`;
    return cells("td", [one.verdict + votes, one.points, criterion, one.quote, one.reason]);
  });
  const head = make("thead", {}, cells("th", ["verdict", "points", "criterion", "quote", "reason"]));
  const shown = { class: "scroll", tabindex: 0, role: "group", "aria-label": "criteria" };
  return [make("div", shown, make("table", {}, head, make("tbody", {}, ...rows)))];
}

/** The parts of a reward with a bar for each score; the names of a part's own numbers begin with its name and a dot. */
function partsTable(judgment) {
  const numbers = judgment?.parts ?? judgment ?? {};
  const names = Object.keys(numbers);
  const parts = names.filter(
    (name) => typeof numbers[name] === "number" && names.some((other) => other.startsWith(`${name}.`)),
  );
  if (parts.length === 0) return [];
  const rows = parts.map((name) => {
    const score = numbers[name];
    const bar = make("meter", { min: 0, max: 1, value: score, "aria-label": name });
    const adds = judgment.contributions?.[name];
    const added = typeof adds === "number" ? `adds ${adds.toFixed(3)}` : "";
    return make("tr", {}, ...[name, bar, score.toFixed(3), added].map((value) => make("td", {}, value)));
  });
  return [make("table", { class: "parts" }, make("tbody", {}, ...rows))];
}

/** The judgment as it was saved; folded where its verdict is said above. */
function judgmentOf(detail) {
  if (detail.verdict.length === 0) return treeOf(detail.judgment);
  return folded(make("summary", {}, "all fields, as they were saved"), () => [treeOf(detail.judgment)]);
}

function section(title, parts, note = null) {
  if (parts.length === 0) return null;
  const said = note === null ? null : make("p", { class: "note" }, note);
  return make("section", { "aria-label": title }, make("h3", {}, title), said, ...parts);
}

function factsOf(item, position) {
  const facts = [outcome(item), ordersSign(item)];
  const add = (name, value) => facts.push(make("span", {}, make("span", { class: "note" }, `${name} `), value));
  if (item.label !== null && item.status !== "ok" && !item.failed) add("status", inline(item.status));
  add(index.kind === "groups" ? "rewards" : "score", scoreWords(item, position));
  if (item.category !== null) add("category", inline(item.category));
  add("length", counted(item.length, "character"));
  add("time", seconds(item.seconds));
  if (item.judge_cost !== null) add("judge cost", dollars(item.judge_cost));
  return make("p", { class: "item-facts" }, ...facts);
}

function answersTitle(detail, beside) {
  const one = index.kind === "responses" ? "Response" : "Answer";
  if (detail.completions.length === 0 && beside.length > 0) return `No ${one.toLowerCase()}`;
  const answers = detail.completions.length > 1 ? `${one}s` : one;
  return beside.length === 0 ? answers : `${answers} beside ${beside.map((text) => text.title).join(", ")}`;
}

/** Completions beside baseline or reference: in columns where there is room; turns of a conversation follow each other. */
function answersOf(detail, beside) {
  const completions = detail.completions.map((completion) => completionParts(completion));
  const isConversation = detail.completions.some((completion) => completion.asked !== "");
  const columns = isConversation ? [completions.flat()] : completions;
  return make(
    "div",
    { class: "columns" },
    ...columns.map((parts) => make("div", { class: "column" }, ...parts)),
    ...beside.map((text) => make("div", { class: "column" }, textBox(text.title, text.text))),
  );
}

function completionParts(completion) {
  const parts = completion.asked === "" ? [] : [textBox("user", completion.asked)];
  parts.push(...completion.notes.map((note) => make("p", { class: "notice" }, inline(note))));
  if (completion.thinking !== "") parts.push(foldedText("thinking", completion.thinking));
  const note = completion.turn_score === null ? null : `judged, score ${score(completion.turn_score)}`;
  const box = textBox(completion.title, completion.text, { note });
  if (completion.is_judged) box.classList.add("judged");
  return [...parts, box];
}

function rolloutsOf(detail, beside) {
  const texts = beside.map((text) => foldedText(text.title, text.text));
  const rollouts = detail.completions.map((completion) => rolloutView(completion, detail.completions.length <= 4));
  return [...texts, ...rollouts];
}

function rolloutView(completion, isOpen) {
  const words = completion.label ?? completion.status;
  const summary = make(
    "summary",
    {},
    inline(completion.title, { class: "call-name" }),
    " ",
    make("strong", { class: "number" }, completion.score === null ? "no reward" : `reward ${score(completion.score)}`),
    words === null ? null : make("span", { class: "note" }, " · ", inline(words)),
    make("span", { class: "note" }, ` · ${counted(completion.text.length, "character")}`),
  );
  const build = () =>
    [
      completion.status === null || completion.status === "ok"
        ? null
        : make("p", { class: "notice" }, "Status of the judgment: ", inline(completion.status)),
      completion.seen === "" ? null : make("p", { class: "note" }, `Seen by the judge: ${completion.seen}`),
      ...completionParts(completion),
      completion.explanation === "" ? null : textBox("explanation of the judge", completion.explanation),
      ...completion.calls.map((call) => callView(call)),
    ].filter((part) => part !== null);
  const details = withTexts(folded(summary, build, isOpen), completion);
  details.classList.add("rollout");
  return details;
}

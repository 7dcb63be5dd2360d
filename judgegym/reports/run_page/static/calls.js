"use strict";
/* A call to a judge or policy: what it was asked, what it answered, with the verdict marked, and what it took. */

const LONGEST_VERDICT = 60;

function callView(call, isOpen = false) {
  const verdict = call.verdict_at === null ? "" : call.answer.slice(...unitsOf(call.answer, call.verdict_at));
  const summary = make(
    "summary",
    {},
    inline(call.vote > 0 ? `${call.name}, vote ${call.vote + 1}` : call.name, { class: "call-name" }),
    " ",
    verdict !== "" && verdict.length <= LONGEST_VERDICT ? make("mark", {}, inline(verdict)) : null,
    call.has_verdict ? null : make("span", { class: "badge failed" }, "no verdict"),
    make("span", { class: "note" }, " ", inline(call.model), ` · ${costs(call).join(" · ")}`),
  );
  return withTexts(
    folded(summary, () => callParts(call), isOpen),
    call,
  );
}

function costs(call) {
  const parts = [];
  if (call.prompt_tokens !== null) {
    const cached = call.cached_prompt_tokens ? ` (${whole(call.cached_prompt_tokens)} cached)` : "";
    parts.push(
      `${whole(call.prompt_tokens)}${cached} + ${call.completion_tokens === null ? "?" : whole(call.completion_tokens)} tokens`,
    );
  }
  parts.push(seconds(call.seconds));
  parts.push(call.attempts === 0 ? "from the judgment cache" : counted(call.attempts, "attempt"));
  if (call.cost !== null) parts.push(dollars(call.cost));
  if (call.finish_reason !== null && call.finish_reason !== "stop") parts.push(`finish reason ${call.finish_reason}`);
  return parts;
}

function callParts(call) {
  const asked =
    call.messages === null
      ? [make("p", { class: "note" }, "What was asked is not in the run's ledger.")]
      : call.messages.map((message) => textBox(message.title, message.text));
  return [
    make("h4", {}, "Asked"),
    ...asked,
    make("h4", {}, "Answered"),
    ...(call.reasoning ? [foldedText("reasoning", call.reasoning)] : []),
    textBox("answer", call.answer, {
      markAt: call.verdict_at,
      note: call.has_verdict ? null : "no verdict was read in it",
    }),
  ];
}

/** A text that is folded at first. */
function foldedText(title, text, note = null) {
  const summary = make(
    "summary",
    {},
    inline(title),
    make("span", { class: "note" }, ` ${counted(text.length, "character")}`),
  );
  return withTexts(
    folded(summary, () => [textBox(title, text, { note })]),
    text,
  );
}

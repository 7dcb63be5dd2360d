"use strict";
/* The groups that the run has kept: a list by kind; each opens to its rollouts with their judgments side by side. */

const KINDS = [
  ["latest", "Latest"],
  ["worst", "Lowest reward"],
  ["gap", "Widest gap to the gold judge"],
  ["alarm", "Named by an alarm"],
  ["over the run", "Over the whole run"],
];
const MOST_LEFT_OPEN = 8; // groups that the run has dropped since

function meanOf(numbers) {
  const known = numbers.filter((each) => each !== null);
  return known.length === 0 ? null : known.reduce((sum, each) => sum + each, 0) / known.length;
}

function gapOf(head) {
  return Math.max(...head.gold.map((gold, at) => (gold === null || head.scores[at] === null ? -Infinity : head.scores[at] - gold)));
}

const ORDERS = {
  latest: (one, other) => other.number - one.number,
  worst: (one, other) => (meanOf(one.rewards) ?? Infinity) - (meanOf(other.rewards) ?? Infinity),
  gap: (one, other) => gapOf(other) - gapOf(one),
  alarm: (one, other) => one.number - other.number,
  "over the run": (one, other) => one.number - other.number,
};

/** A group in the list. What it opens to is asked for when it is opened, and dropped when it is closed. */
class GroupEntry {
  constructor(head, load) {
    this.load = load;
    this.summary = make("summary", {});
    this.content = make("div", {});
    this.details = make("details", {}, this.summary, this.content);
    this.item = make("li", {}, this.details);
    this.details.addEventListener("toggle", () => (this.details.open ? this.fill() : this.content.replaceChildren()));
    this.named = new Set();
    this.show(head, false);
  }

  show(head, isDropped) {
    this.head = head;
    const reward = meanOf(head.rewards);
    const gold = meanOf(head.gold);
    const words = JSON.stringify([head, isDropped]);
    if (words === this.known) return;
    this.known = words;
    this.summary.replaceChildren(
      make("strong", {}, `Group ${whole(head.number)}`),
      ...(head.judge === "" ? [] : [make("span", {}, "judge ", inline(head.judge))]),
      make("span", { class: "note" }, `step ${whole(head.step)}`),
      make("span", {}, inline(head.uid)),
      make("span", { class: "number" }, reward === null ? "no reward" : `mean reward ${score(reward)}`),
      ...(gold === null ? [] : [make("span", { class: "number" }, `gold ${score(gold)}`)]),
      make("span", { class: "note number" }, head.rewards.map((each) => (each === null ? "–" : score(each))).join(" ")),
      ...(isDropped ? [make("span", { class: "note" }, "not kept any more")] : []),
      make("span", { class: "group-start" }, inline(head.start)),
    );
  }

  async fill() {
    if (this.content.childElementCount > 0) return;
    this.content.replaceChildren(make("p", { class: "note" }, "…"));
    try {
      const group = await this.load(`group/${this.head.id}`, `group-${this.head.id}`);
      this.content.replaceChildren(...groupParts(group, this.named, () => this.load(`calls/${this.head.id}`, null)));
    } catch (error) {
      this.content.replaceChildren(make("p", { class: "error" }, error.message));
    }
  }

  async open(rollout) {
    this.named.add(rollout);
    this.details.open = true;
    this.content.replaceChildren();
    await this.fill();
    const column = this.content.querySelector(`[data-rollout="${rollout}"]`) ?? this.summary;
    column.scrollIntoView({ block: "start" });
    column.focus({ preventScroll: true });
  }
}

function groupParts(group, named, calls) {
  const texts = Object.entries(group.texts).map(([title, text]) => foldedText(title, text));
  const columns = group.rollouts.map((rollout) => rolloutColumn(rollout, named.has(rollout.number), callsOf(group, rollout.number, calls)));
  const fewer = group.rollouts.length < group.size ? [make("p", { class: "note" }, `The texts of ${group.rollouts.length} of ${group.size} rollouts are kept: those of the lowest and the highest rewards.`)] : [];
  const together = group.calls?.[""] ?? [];
  return [
    textBox("prompt", group.question, { part: 1200 }),
    ...texts,
    ...fewer,
    make("div", { class: "columns" }, ...columns),
    ...together.map((call) => callView(call)),
  ];
}

/** The calls of a rollout: in the file, or asked for with a button. */
function callsOf(group, number, load) {
  if (group.ledger === null) return null;
  if (group.calls !== undefined) return (group.calls[String(number)] ?? []).map((call) => callView(call));
  const place = make("div", {});
  const button = make("button", { type: "button" }, "Calls");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const found = await load();
      const views = [...(found[String(number)] ?? []), ...(found[""] ?? [])].map((call) => callView(call, false));
      place.replaceChildren(...(views.length > 0 ? views : [make("p", { class: "note" }, "The ledger does not have its calls (serve keeps those of finished groups with --keep_calls=True).")]));
    } catch (error) {
      button.disabled = false;
      place.replaceChildren(button, make("p", { class: "error" }, error.message));
    }
  });
  place.append(button);
  return [place];
}

function rolloutColumn(rollout, isNamed, calls) {
  const facts = [
    rollout.reward === null ? "masked: no reward" : `reward ${score(rollout.reward)}`,
    rollout.score === null ? "no score" : `training judge ${score(rollout.score)}`,
    rollout.gold === null ? null : `gold judge ${score(rollout.gold)}`,
    rollout.status === "ok" ? null : rollout.status,
    rollout.label === null || Number(rollout.label) === rollout.score ? null : rollout.label,
    rollout.format_fault === null ? null : `format: ${rollout.format_fault}`,
    rollout.finish_reason === null || rollout.finish_reason === "stop" ? null : `ended by ${rollout.finish_reason}`,
    rollout.tokens === null ? null : counted(rollout.tokens, "token"),
    rollout.redraws > 0 ? counted(rollout.redraws, "redraw") : null,
    rollout.suspects > 0 ? counted(rollout.suspects, "suspect of injection") : null,
    ...Object.entries({ ...rollout.parts, ...rollout.criteria }).map(([name, value]) => `${name} ${score(value)}`),
  ].filter((each) => each !== null && each !== "");
  return make(
    "section",
    { class: `rollout-column${isNamed ? " named" : ""}`, "data-rollout": rollout.number, tabindex: -1, "aria-label": `rollout ${rollout.number + 1}` },
    make("h4", {}, `Rollout ${rollout.number + 1}`),
    make("p", { class: "item-facts" }, ...facts.map((each) => inline(each))),
    textBox("completion", rollout.completion, { part: 1200 }),
    rollout.explanation === "" ? null : textBox("explanation of the judge", rollout.explanation, { part: 600 }),
    ...(calls ?? []),
  );
}

/** The list. */
class Groups {
  constructor(load) {
    this.load = load;
    this.kind = null;
    this.entries = new Map();
    this.heads = [];
    this.buttons = KINDS.map(([kind, words]) => {
      const button = make("button", { type: "button", "aria-pressed": "false", onclick: () => this.choose(kind) });
      return { kind, words, button };
    });
    at("kinds").replaceChildren(...this.buttons.map((each) => each.button));
  }

  choose(kind) {
    this.kind = kind;
    this.show(this.heads);
  }

  show(heads) {
    this.heads = heads;
    const of = (kind) => heads.filter((head) => head.kept.includes(kind));
    if (this.kind === null && heads.length > 0) this.kind = "latest";
    for (const { kind, words, button } of this.buttons) {
      const count = of(kind).length;
      button.textContent = `${words} (${count})`;
      button.hidden = count === 0 && kind !== this.kind;
      button.setAttribute("aria-pressed", String(kind === this.kind));
    }
    const chosen = of(this.kind).sort(ORDERS[this.kind]);
    const ids = new Set(chosen.map((head) => head.id));
    const left = [...this.entries.values()].filter((entry) => entry.details.open && !ids.has(entry.head.id));
    const known = new Map(heads.map((head) => [head.id, head]));
    const all = [...chosen, ...left.slice(-MOST_LEFT_OPEN).map((entry) => entry.head)].sort(ORDERS[this.kind]);
    const entries = new Map(all.map((head) => [head.id, this.entries.get(head.id) ?? new GroupEntry(head, this.load)]));
    for (const [id, entry] of entries) entry.show(known.get(id) ?? entry.head, !known.has(id));
    this.entries = entries;
    arrange(at("groups"), [...entries.values()].map((entry) => entry.item));
    at("group-count").textContent = heads.length === 0 ? "No group is there yet." : "";
  }

  async open(id, rollout) {
    const head = this.heads.find((each) => each.id === id);
    if (head === undefined) return;
    this.choose(head.kept.includes("alarm") ? "alarm" : head.kept[0]);
    await this.entries.get(id).open(rollout);
  }
}

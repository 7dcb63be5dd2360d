"use strict";
/* The page of a training run: what the file says, and what the server sends while the run goes on. */

const STANDINGS = {
  training: "training",
  ended: "ended",
  paused: "paused: no group is sent",
  stopped: "stopped: no process is at it",
  silent: "nothing was written for a while",
};
const first = JSON.parse(at("state").textContent);
const LIVE = first.live;

/** What a group has: from the server, or from a block of the file. */
async function load(address, block) {
  if (LIVE === "") return unpacked(at(block).textContent);
  const response = await fetch(`${LIVE}/${address}`);
  if (!response.ok) throw new Error((await response.text()).trim() || `the server answers ${response.status}`);
  return response.json();
}

const charts = new Charts(at("charts"));
const groups = new Groups(load);
let alarmsShown = "";

function show(state) {
  at("standing").className = `badge ${state.standing}`;
  said(at("standing"), STANDINGS[state.standing]);
  at("facts").replaceChildren(
    ...factsOf(state).map(([name, value]) =>
      make("div", {}, make("dt", {}, inline(name)), " ", make("dd", {}, inline(value))),
    ),
  );
  showPause(state);
  charts.show(state.judges);
  groups.show(state.groups);
  showAlarms(state);
  showFailures(state);
  showCriteria(state);
  showLeftOut(state);
}

/** What the head of the page says: names and values; what is not known is left out. */
function factsOf(state) {
  const { step, total_steps, groups, sent, rollouts, in_progress, unsent } = state.numbers;
  const said = (number, words) => (number === null ? "" : `${whole(number)}${words}`);
  const gold = state.judges.flatMap((judge) => Object.entries(judge.gold).map(([name, count]) => said(count, ` ${name.replaceAll("_", " ")}`)));
  const costs = Object.entries(state.costs).map(([role, cost]) => `${role} ${cost === null ? "not known" : `$${cost.toFixed(2)}`}`);
  const where = (judge) => (judge.name === "" ? "" : ` at ${judge.name}`);
  return [
    ["step", said(step, total_steps > 0 ? ` of ${whole(total_steps)}` : "")],
    ["groups", said(groups, " judged") + (sent === null ? "" : `, ${whole(sent)} sent`)],
    ["rollouts", said(rollouts, "")],
    ["in progress", said(in_progress, " groups")],
    ["queue", said(unsent, " groups wait to be sent")],
    ["gold scores", gold.join(", ")],
    ["cost", costs.join(", ")],
    ["waits for", state.waits_for],
    ["policy", state.policy],
    ...state.judges.flatMap((judge) => [[`training judge${where(judge)}`, judge.judge], [`gold judge${where(judge)}`, judge.gold_judge]]),
    ["last written", state.at === null ? "" : new Date(state.at * 1000).toLocaleTimeString()],
  ].filter(([, value]) => value !== "");
}

/** A button that lets a paused run go on. */
function showPause(state) {
  const isPaused = state.standing === "paused" && LIVE !== "";
  if (at("pause").hidden !== isPaused) return;
  at("pause").hidden = !isPaused;
  const answer = make("span", { class: "note", role: "status" });
  const button = make("button", { type: "button", class: "main" }, "Let it go on");
  button.addEventListener("click", async () => {
    button.disabled = true;
    const response = await fetch(`${LIVE}/resume`, { method: "POST", headers: { "X-JudgeGym-Token": first.token } }).catch((error) => error);
    if (response.ok) return said(answer, "it goes on within a second");
    button.disabled = false;
    said(answer, response instanceof Error ? response.message : await response.text());
  });
  at("pause").replaceChildren(...(isPaused ? [button, " ", answer] : []));
}

/** Change a text only if it is another one, so that nothing is read out again. */
function said(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function showAlarms(state) {
  const ids = new Map(state.groups.map((head) => [`${head.number} ${head.judge}`, head.id]));
  const idOf = (alarm, place) => ids.get(`${place.group} ${alarm.judge}`);
  const now = JSON.stringify(state.alarms.map((alarm) => [alarm, alarm.rollouts.map((place) => idOf(alarm, place))]));
  if (now === alarmsShown) return;
  alarmsShown = now;
  at("alarms").hidden = state.alarms.length === 0;
  const more = state.alarm_count - state.alarms.length;
  at("alarm-list").replaceChildren(
    ...state.alarms.map((alarm) => alarmView(alarm, idOf)),
    ...(more > 0 ? [make("li", {}, `${whole(more)} earlier ones are in monitor.jsonl.`)] : []),
  );
}

function alarmView(alarm, idOf) {
  const places = alarm.rollouts.map((place) => {
    const id = idOf(alarm, place);
    const words = `rollout ${place.rollout + 1} of group ${place.group}`;
    const button = make("button", { type: "button", onclick: () => groups.open(id, place.rollout) }, words, " (", inline(place.uid), ")");
    button.disabled = id === undefined;
    if (button.disabled) button.title = "its texts are not kept";
    return button;
  });
  return make(
    "li",
    {},
    make("p", {}, make("strong", {}, inline(alarm.monitor)), alarm.judge === "" ? null : inline(` (judge ${alarm.judge})`), ` at step ${whole(alarm.step)}, since step ${whole(alarm.since)}`),
    make("p", {}, inline(alarm.seen)),
    make("p", { class: "note" }, inline(alarm.advice)),
    places.length === 0 ? null : make("div", { class: "places" }, ...places),
  );
}

function showFailures(state) {
  const rows = [
    ...state.failures.map(([cause, count]) => [cause, count, state.reasons[cause] ?? ""]),
    ...state.dropped.map(([cause, count]) => [`group dropped: ${cause}`, count, ""]),
  ];
  at("failures").hidden = rows.length === 0;
  at("failure-rows").replaceChildren(
    ...rows.map(([cause, count, reason]) => make("tr", {}, make("th", { scope: "row" }, inline(cause)), make("td", { class: "number" }, whole(count)), make("td", {}, inline(reason)))),
  );
}

function showCriteria(state) {
  const rows = state.judges.flatMap((judge) => judge.criteria);
  at("criteria").hidden = rows.length === 0;
  at("criteria-rows").replaceChildren(
    ...rows.map(([name, ...numbers]) => make("tr", {}, make("th", { scope: "row" }, inline(name)), ...numbers.map((each) => make("td", { class: "number" }, typeof each === "number" ? score(each) : "")))),
  );
}

function showLeftOut(state) {
  const rows = state.judges.flatMap((judge) => judge.left_out);
  at("left-out").hidden = rows.length === 0;
  at("left-out-rows").replaceChildren(...rows.map(([title, reason]) => make("div", {}, make("dt", {}, inline(title)), make("dd", {}, inline(reason)))));
}

for (const element of document.querySelectorAll(".signs")) element.replaceChildren(...signed(element.textContent));
show(first);
if (LIVE !== "") {
  const source = new EventSource(`${LIVE}/events`);
  source.addEventListener("open", () => said(at("connection"), ""));
  source.addEventListener("error", () => said(at("connection"), "not connected to judgegym view: it is tried again"));
  source.addEventListener("state", (event) => show(JSON.parse(event.data)));
}

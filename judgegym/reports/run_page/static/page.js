"use strict";
/* The page: what the address says is shown, whatever changed it; controls and keys change the address. */

const TITLE = document.title;
const WORDS = { rows: "sample", groups: "group", responses: "response" };
const TYPING_PAUSE = 150; // milliseconds
const WALKING_PAUSE = 100;

let state = readAddress();
let search = null;
let shown = [];
let opened = null; // the id of the item that is open
let lastPlace = 0; // in the list: where the walk goes on
let listScroll = 0;
let cameFromList = false;
let wantsSearch = false;
let pause = 0; // before `state` is written to the address
let written = location.hash;

const hrefOf = (position) => addressOf({ ...state, id: items[position].id });
const list = new ItemList(at("list"), (position, place, count) => rowOf(position, place, count, hrefOf(position)));

/** Take over what the address says: after a click on a link, or on Back. */
function follow() {
  if (pause !== 0 && location.hash === written) return; // what is about to be written is newer
  clearTimeout(pause);
  pause = 0;
  written = location.hash;
  state = readAddress();
  show();
}

/** Show what `state` says; what is shown already stays as it is. */
function show() {
  showInControls(state);
  lookFor(state.q ?? "");
  refresh();
  if (state.id === null) showList();
  else if (state.id !== opened) showItem(state.id);
}

function lookFor(query) {
  if (query === (search?.query ?? "")) return;
  search?.stop();
  search = termsOf(query).length === 0 ? null : new Search(query, progressed);
  searched = search?.terms ?? [];
  if (search === null) return;
  if (canUnpack) search.run().catch((error) => tell(error.message));
  else tell(`${CANNOT_UNPACK} Only ids, categories, outcomes and beginnings of questions are searched.`);
}

let drawnAt = 0;

function progressed(searching) {
  if (searching !== search) return;
  if (searching.done < 1 && performance.now() - drawnAt < 150) return;
  drawnAt = performance.now();
  refresh();
}

/** Compute what passes the filters, and draw the list where that has changed. */
function refresh() {
  const next = chosen(state, search);
  const isSame = next.length === shown.length && next.every((position, place) => position === shown[place]);
  shown = next;
  if (isSame) list.relink(hrefOf);
  else list.show(shown);
  const word = WORDS[index.kind];
  const count =
    shown.length === items.length
      ? counted(shown.length, word)
      : `${whole(shown.length)} of ${counted(items.length, word)}`;
  const searching =
    search !== null && search.done < 1 && canUnpack
      ? ` so far: searching the texts, ${Math.floor(100 * search.done)} %`
      : "";
  const fewer = items.length < index.total ? ` (the run has ${whole(index.total)})` : "";
  at("count").textContent = count + fewer + searching;
  at("none").hidden = shown.length > 0 || searching !== "";
  if (opened !== null) showPlace();
}

function showList() {
  const wasOpen = opened !== null;
  opened = null;
  cameFromList = false;
  document.title = TITLE;
  at("detail").hidden = true;
  at("overview").hidden = false;
  if (!wasOpen) return list.draw();
  scrollTo(0, listScroll);
  list.draw();
  if (wantsSearch) at("q").select();
  else list.focus(lastPlace);
  wantsSearch = false;
}

async function showItem(id) {
  if (opened === null) listScroll = scrollY;
  opened = id;
  document.title = `${id} · ${TITLE}`;
  at("overview").hidden = true;
  at("detail").hidden = false;
  at("detail-title").replaceChildren(...(index.kind === "groups" ? ["Group "] : []), inline(id));
  showPlace();
  scrollTo(0, 0);
  at("detail-title").focus({ preventScroll: true });
  const parts = await partsOf(id);
  if (opened !== id) return;
  at("detail-parts").replaceChildren(...parts);
  highlightIn(at("detail-parts"));
}

async function partsOf(id) {
  const position = positionOf.get(id);
  if (position === undefined) {
    const fewer = items.length < index.total ? ` It holds ${whole(items.length)} of ${whole(index.total)}.` : "";
    return [
      make(
        "p",
        { class: "error" },
        `This page has no ${WORDS[index.kind]} with this id.${fewer}`,
      ),
    ];
  }
  try {
    return detailParts(items[position], await detailOf(position), position);
  } catch (error) {
    return [factsOf(items[position], position), make("p", { class: "error" }, error.message)];
  }
}

function showPlace() {
  const place = shown.indexOf(positionOf.get(opened));
  if (place !== -1) lastPlace = place;
  at("place").textContent =
    place === -1 ? "not among those that the filters show" : `${whole(place + 1)} of ${whole(shown.length)}`;
  at("previous").disabled = place <= 0;
  at("next").disabled = shown.length === 0 || place === shown.length - 1;
}

function walk(step) {
  const place = opened === null ? list.focused() : shown.indexOf(positionOf.get(opened));
  const next = place === -1 ? (opened === null ? Math.min(lastPlace, shown.length - 1) : 0) : place + step;
  if (next < 0 || next >= shown.length) return;
  lastPlace = next;
  if (opened === null) return list.focus(next);
  state = { ...state, id: items[shown[next]].id };
  show();
  writeAddress(WALKING_PAUSE);
}

/** Open the item of a row: a new entry in the browser's history, so that Back leads to the list. */
function openItem(event) {
  const link = event.target.closest("a");
  if (link === null || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  writeAddress(0);
  cameFromList = true;
  location.hash = link.getAttribute("href");
}

function closeItem() {
  clearTimeout(pause);
  pause = 0;
  if (cameFromList) history.back();
  else location.replace(addressOf({ ...state, id: null }));
}

function toSearch() {
  if (opened === null) return at("q").select();
  wantsSearch = true;
  closeItem();
}

/** Change parameters; while somebody types, the list follows after a pause. */
function change(parameters) {
  state = { ...state, ...parameters };
  const isTyped = ["q", "min", "max"].some((name) => name in parameters) && Object.keys(parameters).length === 1;
  lastPlace = 0;
  writeAddress(isTyped ? TYPING_PAUSE : 0, show);
}

/** Write `state` to the address, at once or later: browsers refuse hundreds of changes within seconds. */
function writeAddress(delay, before = () => {}) {
  const write = () => {
    pause = 0;
    before();
    location.replace(addressOf(state));
    written = location.hash;
  };
  clearTimeout(pause);
  if (delay === 0) write();
  else pause = setTimeout(write, delay);
}

function tell(message) {
  at("told").textContent = message;
}

at("filters").open = innerWidth > 900;
setUpControls(change);
setUpKeys();
for (const element of document.querySelectorAll(".signs")) element.replaceChildren(...signed(element.textContent));
at("previous").addEventListener("click", () => walk(-1));
at("next").addEventListener("click", () => walk(1));
at("close").addEventListener("click", closeItem);
at("to-samples").addEventListener("click", () => {
  at("samples").scrollIntoView();
  at("q").focus({ preventScroll: true });
});
at("copy-place").replaceWith(copyButton("Copy link", () => linkTo(state)));
at("detail-parts").addEventListener("filled", () => highlightIn(at("detail-parts")));
at("list").addEventListener("click", openItem);
addEventListener("hashchange", follow);
if (!canUnpack) tell(CANNOT_UNPACK);
show();

"use strict";
/* The list of runs: order, filter, ticks. Rows are moved and hidden; texts stay where the server has put them. */

const FEWEST = 2;
const body = document.getElementById("runs");

if (body !== null) {
  const rows = [...body.rows];
  const words = new Map(rows.map((row) => [row, row.innerText.toLowerCase()]));
  const filter = document.getElementById("filter");
  const button = document.getElementById("compare");
  const said = document.getElementById("said");
  const heads = [...document.querySelectorAll("th[data-sort]")];
  const state = new URLSearchParams(location.hash.slice(1));

  const box = (row) => row.querySelector("input");

  /** The value of a column: a number (none sorts last), or the text as people sort it. */
  function value(row, column) {
    const cell = row.cells[column];
    if (cell.dataset.number === undefined) return cell.innerText.trim();
    return cell.dataset.number === "" ? null : Number(cell.dataset.number);
  }

  function compared(one, other) {
    return typeof one === "number" ? one - other : one.localeCompare(other, "en", { numeric: true, sensitivity: "base" });
  }

  function sort(name, descending) {
    const head = heads.find((each) => each.dataset.sort === name) ?? heads[0];
    const column = head.cellIndex;
    const values = new Map(rows.map((row) => [row, value(row, column)]));
    const isMissing = (row) => values.get(row) === null || values.get(row) === "";
    const ordered = [...rows].sort((one, other) => {
      if (isMissing(one) || isMissing(other)) return Number(isMissing(one)) - Number(isMissing(other));
      return (descending ? -1 : 1) * compared(values.get(one), values.get(other));
    });
    body.append(...ordered);
    for (const each of heads) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  }

  function show() {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    for (const row of rows) row.hidden = !box(row).checked && !wanted.every((word) => words.get(row).includes(word));
    const ticked = rows.filter((row) => box(row).checked).length;
    const shown = rows.filter((row) => !row.hidden).length;
    button.disabled = ticked < FEWEST;
    const runs = `${shown === rows.length ? "" : `${shown} of `}${rows.length} run${rows.length === 1 ? "" : "s"}`;
    said.textContent = `${runs}; ${ticked === 0 ? "tick two or more" : `${ticked} ticked`}, the oldest is the reference`;
  }

  /** Keep order and filter in the address, so that they are the same when the page is loaded again. */
  function keep() {
    history.replaceState(null, "", state.size === 0 ? location.pathname : `#${state}`);
  }

  for (const head of heads) {
    const sorter = document.createElement("button");
    sorter.type = "button";
    sorter.className = "sort";
    sorter.textContent = head.textContent;
    head.replaceChildren(sorter);
    sorter.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const descending = before === null ? head.classList.contains("number") || head.dataset.sort === "date" : before === "ascending";
      sort(head.dataset.sort, descending);
      state.set("sort", head.dataset.sort);
      state.set("order", descending ? "descending" : "ascending");
      keep();
    });
  }

  filter.hidden = false;
  filter.value = state.get("q") ?? "";
  filter.addEventListener("input", () => {
    if (filter.value === "") state.delete("q");
    else state.set("q", filter.value);
    keep();
    show();
  });
  filter.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault(); // it filters, and compares nothing
  });
  body.addEventListener("change", show);
  addEventListener("pageshow", show); // a browser that goes back restores the ticks
  if (state.has("sort")) sort(state.get("sort"), state.get("order") !== "ascending");
  show();
}

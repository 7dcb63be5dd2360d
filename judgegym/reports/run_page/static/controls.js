"use strict";
/* The controls above the list: they show the filters of the address, and change it. */

const ANY = "*"; // the value of an option; those of others begin with "="

/** Fill the controls once; `onChange` gets the parameters that changed. */
function setUpControls(onChange) {
  fillSelect("category", valuesOf("category"), (value) => value || "(none)");
  fillSelect("outcome", valuesOf("label"), (value) => value || "(none)");
  const failed = items.filter((item) => item.failed).length;
  fillSelect("status", [...(failed > 0 ? [[FAILED, failed]] : []), ...valuesOf("status")], (value) =>
    value === FAILED ? "failed (any)" : value,
  );
  at("orders").closest("label").hidden = !items.some((item) => item.orders_disagree !== null);
  at("gold").closest("label").hidden = !items.some((item) => item.gold_differs !== null);
  for (const name of ["min", "max"]) at(name).closest("label").hidden = !items.some((item) => item.score !== null);
  at("sort").querySelector("[value='cost']").hidden = !items.some((item) => item.judge_cost !== null);

  for (const name of ["category", "outcome", "status"])
    at(name).addEventListener("change", ({ target }) =>
      onChange({ [name]: target.value === ANY ? undefined : target.value.slice(1) }),
    );
  for (const name of ["min", "max"])
    at(name).addEventListener("input", ({ target }) =>
      onChange({ [name]: target.value === "" ? undefined : target.value }),
    );
  for (const name of ["orders", "gold", "reverse"])
    at(name).addEventListener("change", ({ target }) => onChange({ [name]: target.checked ? "1" : undefined }));
  at("sort").addEventListener("change", ({ target }) =>
    onChange({ sort: target.value === "" ? undefined : target.value }),
  );
  at("q").addEventListener("input", ({ target }) => onChange({ q: target.value === "" ? undefined : target.value }));
  at("clear").addEventListener("click", () =>
    onChange(Object.fromEntries(PARAMETERS.map((name) => [name, undefined]))),
  );
}

/** Show the parameters of an address. */
function showInControls(state) {
  for (const name of ["category", "outcome", "status"])
    at(name).value = state[name] === undefined ? ANY : `=${state[name]}`;
  for (const name of ["orders", "gold", "reverse"]) at(name).checked = state[name] !== undefined;
  for (const name of ["q", "min", "max", "sort"])
    if (at(name).value !== (state[name] ?? "")) at(name).value = state[name] ?? "";
  at("clear").disabled = PARAMETERS.every((name) => state[name] === undefined);
  const inside = PARAMETERS.filter((name) => name !== "q" && state[name] !== undefined).length;
  at("filters-count").textContent = inside === 0 ? "" : ` (${inside} set)`;
}

function fillSelect(name, values, worded) {
  at(name).closest("label").hidden = values.length < 2;
  at(name).append(
    make("option", { value: ANY }, "any"),
    ...values.map(([value, count]) =>
      make("option", { value: `=${value}` }, `${shortened(worded(value))} (${whole(count)})`),
    ),
  );
}

/** The beginning of a text of one line, its unseen characters as signs. */
function shortened(text) {
  const shown = signed(text.slice(0, 80))
    .map((node) => node.textContent)
    .join("");
  return text.length > 80 ? `${shown}…` : shown;
}

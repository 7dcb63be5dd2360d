"use strict";
/* Charts by step, as SVG: curves with their ranges and limits. A chart is drawn anew only if its data has changed. */

const SVG = "http://www.w3.org/2000/svg";
const WIDE = 360;
const HIGH = 170;
const PAD = { left: 46, right: 8, top: 8, bottom: 20 };
const COLOURS = 6;
const LEAST = 1e-3; // on a logarithmic scale

function drawn(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** A number in at most six characters. */
function short(number) {
  const size = Math.abs(number);
  if (size >= 1e6) return number.toExponential(0);
  if (size >= 1000) return whole(number);
  return String(Number(number.toPrecision(3)));
}

/** Round numbers in a range, two to five of them. */
function ticksOf(low, high) {
  const rough = (high - low) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [5, 2, 1].map((each) => each * power).find((each) => each <= rough);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, place) => (first + place) * step);
}

/** One chart: `show` takes its data. */
class Chart {
  constructor() {
    this.caption = make("figcaption", {});
    this.svg = drawn("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", tabindex: 0 });
    this.keys = make("div", { class: "keys-of-lines" });
    this.said = make("p", { class: "said" });
    this.read = make("output", { class: "said" });
    this.figure = make("figure", { class: "chart" }, this.caption, this.svg, this.keys, this.said, this.read);
    this.known = "";
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.mark(null));
    this.svg.addEventListener("blur", () => this.mark(null));
    this.svg.addEventListener("keydown", (event) => this.walk(event));
  }

  show(chart) {
    const data = JSON.stringify(chart);
    if (data === this.known) return;
    this.known = data;
    this.chart = chart;
    this.steps = [...new Set(chart.lines.flatMap((line) => line.x))].sort((one, other) => one - other);
    this.figure.classList.toggle("beyond", chart.is_beyond);
    this.caption.replaceChildren(inline(chart.title), ...(chart.is_beyond ? [" ", make("span", { class: "badge lost" }, "beyond its limit")] : []));
    this.said.replaceChildren(...signed(chart.said));
    this.keys.replaceChildren(
      ...(chart.lines.length > 1 ? chart.lines : []).map((line, number) =>
        make("span", {}, make("span", { class: `swatch line-${number % COLOURS}` }), inline(line.name)),
      ),
    );
    this.draw();
    this.svg.setAttribute("aria-label", `${chart.title}. ${this.words(this.steps.length - 1)}. ${chart.said}`);
  }

  /** Where a step and a value are in the picture. */
  place(step, value) {
    const [x0, x1, y0, y1] = this.range;
    const across = x1 === x0 ? 0.5 : (step - x0) / (x1 - x0);
    const up = y1 === y0 ? 0.5 : (this.scaled(value) - y0) / (y1 - y0);
    return [PAD.left + across * (WIDE - PAD.left - PAD.right), HIGH - PAD.bottom - up * (HIGH - PAD.top - PAD.bottom)];
  }

  scaled(value) {
    return this.chart.is_logarithmic ? Math.log10(Math.max(value, LEAST)) : value;
  }

  draw() {
    const { lines, limits } = this.chart;
    const values = lines.flatMap((line) => [...line.y, ...(line.low ?? []), ...(line.high ?? [])]);
    const all = [...values, ...limits.flatMap((line) => line.y)].map((value) => this.scaled(value));
    let [low, high] = [Math.min(...all), Math.max(...all)];
    const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 0.1;
    const least = low >= 0 && !this.chart.is_logarithmic ? Math.max(0, low - room) : low - room;
    this.range = [this.steps[0], this.steps.at(-1), least, high + room];
    const path = (steps, numbers) => steps.map((step, at) => this.place(step, numbers[at]).map((each) => each.toFixed(1)).join(",")).join(" ");
    const parts = [...this.axes()];
    lines.forEach((line, number) => {
      if (line.low) {
        const back = [...line.x].reverse();
        const around = `${path(line.x, line.high)} ${path(back, [...line.low].reverse())}`;
        parts.push(drawn("polygon", { class: `band line-${number % COLOURS}`, points: around }));
      }
    });
    for (const limit of limits) {
      const [first, last] = [limit.y[0], limit.y.at(-1)];
      const steps = [this.steps[0], ...limit.x.map((step) => Math.min(Math.max(step, this.steps[0]), this.steps.at(-1))), this.steps.at(-1)];
      const isGap = this.chart.id === "gold gap"; // it has no limit while the reference is taken
      parts.push(drawn("polyline", { class: "limit", points: isGap ? path(limit.x, limit.y) : path(steps, [first, ...limit.y, last]) }));
    }
    lines.forEach((line, number) => {
      parts.push(drawn("polyline", { class: `curve line-${number % COLOURS}`, points: path(line.x, line.y) }));
      if (line.x.length === 1) {
        const [x, y] = this.place(line.x[0], line.y[0]);
        parts.push(drawn("circle", { class: `curve line-${number % COLOURS}`, cx: x, cy: y, r: 2.5 }));
      }
    });
    this.cursor = drawn("line", { class: "cursor", y1: PAD.top, y2: HIGH - PAD.bottom, visibility: "hidden" });
    this.svg.replaceChildren(...parts, this.cursor);
  }

  axes() {
    const [x0, x1, y0, y1] = this.range;
    const parts = [];
    for (const at of ticksOf(y0, y1)) {
      const y = HIGH - PAD.bottom - ((at - y0) / (y1 - y0)) * (HIGH - PAD.top - PAD.bottom);
      parts.push(drawn("line", { class: "axis", x1: PAD.left, x2: WIDE - PAD.right, y1: y, y2: y }));
      parts.push(drawn("text", { class: "tick", x: PAD.left - 4, y: y + 3, "text-anchor": "end" }, short(this.chart.is_logarithmic ? 10 ** at : at)));
    }
    for (const [step, anchor, x] of [[x0, "start", PAD.left], [x1, "end", WIDE - PAD.right]])
      parts.push(drawn("text", { class: "tick", x, y: HIGH - 5, "text-anchor": anchor }, `step ${whole(step)}`));
    return parts;
  }

  /** What the curves are at a step, in words. */
  words(at) {
    if (at < 0) return "no value yet";
    const step = this.steps[at];
    const said = this.chart.lines.map((line) => {
      const place = line.x.findLastIndex((each) => each <= step);
      return place < 0 ? null : `${this.chart.lines.length > 1 ? `${line.name} ` : ""}${short(line.y[place])}`;
    });
    return `step ${whole(step)}: ${said.filter((each) => each !== null).join(", ")}`;
  }

  mark(at) {
    this.marked = at;
    this.read.replaceChildren(...(at === null ? [] : signed(this.words(at))));
    this.cursor?.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at === null) return;
    const [x] = this.place(this.steps[at], 0);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDE;
    const away = this.steps.map((step) => Math.abs(this.place(step, 0)[0] - x));
    this.mark(away.indexOf(Math.min(...away)));
  }

  walk(event) {
    const last = this.steps.length - 1;
    const now = Math.min(this.marked ?? last + 1, last + 1);
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") this.mark(null);
    if (next === undefined) return;
    event.preventDefault();
    this.mark(Math.min(Math.max(next, 0), last));
  }
}

/** All charts of a page, by judge. */
class Charts {
  constructor(element) {
    this.element = element;
    this.known = new Map();
  }

  show(judges) {
    const wanted = [];
    for (const judge of judges) {
      if (judges.length > 1) wanted.push(this.node(`title ${judge.name}`, () => make("h3", {}, "Judge ", inline(judge.name === "" ? "at the root" : judge.name))));
      for (const chart of judge.charts) {
        if (chart.lines.length === 0) continue;
        const known = this.node(`chart ${judge.name}\n${chart.id}`, () => new Chart());
        known.show(chart);
        wanted.push(known);
      }
    }
    arrange(this.element, wanted.map((each) => each.figure ?? each));
  }

  node(key, build) {
    if (!this.known.has(key)) this.known.set(key, build());
    return this.known.get(key);
  }
}

/** Give an element these children; one that is in its place already is not touched, and keeps the focus. */
function arrange(element, children) {
  const wanted = new Set(children);
  for (const child of [...element.children]) if (!wanted.has(child)) child.remove();
  let next = element.firstElementChild;
  for (const child of children) {
    if (child === next) next = next.nextElementSibling;
    else element.insertBefore(child, next);
  }
}

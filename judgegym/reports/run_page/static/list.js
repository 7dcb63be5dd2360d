"use strict";
/* The list of items: only the rows in view are in the document, so that its length costs nothing. */

const SPARE_ROWS = 8;

class ItemList {
  /** `container` is an `ol`; `makeRow(position, place, count)` makes an `li` with a link in it. */
  constructor(container, makeRow) {
    this.container = container;
    this.makeRow = makeRow;
    this.positions = [];
    this.rows = new Map();
    this.height = 0;
    this.isDrawing = false;
    const draw = () => this.drawSoon();
    addEventListener("scroll", draw, { passive: true });
    addEventListener("resize", draw);
    addEventListener("beforeprint", () => this.draw(true));
    addEventListener("afterprint", draw);
  }

  show(positions) {
    this.positions = positions;
    this.rows.clear();
    this.container.replaceChildren();
    this.draw();
  }

  /** Give the links of the rows their addresses, where these have changed and the rows have not. */
  relink(hrefOf) {
    for (const [place, row] of this.rows) row.querySelector("a").setAttribute("href", hrefOf(this.positions[place]));
  }

  drawSoon() {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      this.draw();
    });
  }

  draw(all = false) {
    if (this.container.offsetParent === null) return;
    this.measure();
    this.container.style.height = `${this.positions.length * this.height}px`;
    const top = -this.container.getBoundingClientRect().top;
    const first = all ? 0 : Math.max(0, Math.floor(top / this.height) - SPARE_ROWS);
    // At least the first rows are there, also while the list is below the window: Tab and screen readers find them.
    const last = all ? 1000 : Math.max(2 * SPARE_ROWS, Math.ceil((top + innerHeight) / this.height) + SPARE_ROWS);
    this.fill(first, Math.min(last, this.positions.length));
  }

  measure() {
    const probe = make("li", { class: "row" });
    this.container.append(probe);
    const { height } = probe.getBoundingClientRect();
    probe.remove();
    if (height === this.height) return;
    this.height = height;
    for (const [place, row] of this.rows) row.style.top = `${place * height}px`;
  }

  /** Make the rows of these places, in their order, and remove the others, but for the one that has the focus. */
  fill(first, end) {
    for (const [place, row] of this.rows) {
      if ((place >= first && place < end) || row.contains(document.activeElement)) continue;
      row.remove();
      this.rows.delete(place);
    }
    for (let place = first; place < end; place += 1) {
      if (this.rows.has(place)) continue;
      const row = this.makeRow(this.positions[place], place, this.positions.length);
      row.style.top = `${place * this.height}px`;
      this.rows.set(place, row);
    }
    let following = this.container.firstElementChild;
    for (const place of [...this.rows.keys()].sort((one, other) => one - other)) {
      const row = this.rows.get(place);
      if (row === following) following = following.nextElementSibling;
      else this.container.insertBefore(row, following);
    }
  }

  /** The place of the row that has the focus; -1 without one. */
  focused() {
    for (const [place, row] of this.rows) if (row.contains(document.activeElement)) return place;
    return -1;
  }

  focus(place) {
    if (place < 0 || place >= this.positions.length) return;
    const top = this.container.getBoundingClientRect().top + place * this.height;
    const covered = at("controls").getBoundingClientRect().height;
    if (top < covered) scrollBy(0, top - covered - this.height);
    else if (top + this.height > innerHeight) scrollBy(0, top + 2 * this.height - innerHeight);
    this.draw();
    this.rows.get(place)?.querySelector("a").focus({ preventScroll: true });
  }
}

"use strict";
/* Full-text search: all words, or "a phrase", somewhere in an item's texts, whatever their case. It looks through one
   chunk after the other, and lets the browser do other work in between. */

const LONGEST_TASK = 12; // milliseconds

function termsOf(query) {
  const terms = Array.from(query.matchAll(/"([^"]+)"|[^\s"]+/g), (found) => (found[1] ?? found[0]).toLowerCase());
  return [...new Set(terms)].filter((term) => term.trim() !== "");
}

/** A search that goes on until it is through or stopped; `matches` is true at the positions found so far. */
class Search {
  constructor(query, onProgress) {
    this.query = query;
    this.terms = termsOf(query);
    this.matches = items.map((item) => containsAll(summaryTexts(item), this.terms));
    this.done = this.terms.length === 0 ? 1 : 0;
    this.isStopped = false;
    this.onProgress = onProgress;
  }

  async run() {
    let begun = performance.now();
    for (let chunk = 0; chunk < index.chunks.length && !this.isStopped && this.done < 1; chunk += 1) {
      const details = await detailsOfChunk(chunk);
      for (const [place, detail] of details.entries()) {
        const position = index.chunks[chunk] + place;
        this.matches[position] ||= containsAll([...summaryTexts(items[position]), ...textsOf(detail)], this.terms);
        if (performance.now() - begun < LONGEST_TASK) continue;
        await new Promise((resume) => setTimeout(resume));
        begun = performance.now();
        if (this.isStopped) return;
      }
      this.done = (chunk + 1) / index.chunks.length;
      this.onProgress(this);
    }
    if (!this.isStopped && this.done < 1) {
      this.done = 1;
      this.onProgress(this);
    }
  }

  stop() {
    this.isStopped = true;
  }
}

function summaryTexts(item) {
  return [item.id, item.category, item.status, item.label, item.start].filter((text) => text);
}

/** All texts in a JSON value; a text's title is none. */
function textsOf(value, found = []) {
  if (typeof value === "string") found.push(value);
  else if (value !== null && typeof value === "object")
    for (const [name, part] of Object.entries(value)) if (name !== "title") textsOf(part, found);
  return found;
}

function containsAll(texts, terms) {
  const missing = new Set(terms);
  for (const text of texts) {
    if (missing.size === 0) return true;
    const lowered = text.toLowerCase();
    for (const term of missing) if (lowered.includes(term)) missing.delete(term);
  }
  return missing.size === 0;
}

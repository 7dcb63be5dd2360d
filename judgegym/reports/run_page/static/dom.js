"use strict";
/* Elements and numbers. Everything that the page shows is made by `make`: texts become text nodes, never markup. */

/** An element with attributes, listeners (`onclick: f`) and children; a child that is null is left out. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function at(id) {
  return document.getElementById(id);
}

const WHOLE = new Intl.NumberFormat("en");

function whole(number) {
  return WHOLE.format(Math.round(number));
}

function score(number) {
  return String(Number(number.toFixed(3)));
}

function seconds(number) {
  return `${number < 10 ? Number(number.toFixed(2)) : whole(number)} s`;
}

function dollars(number) {
  return `$${number === 0 || number >= 1 ? number.toFixed(2) : Number(number.toPrecision(2))}`;
}

function counted(number, word) {
  return `${whole(number)} ${word}${number === 1 ? "" : "s"}`;
}

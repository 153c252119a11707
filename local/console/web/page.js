// What the pages have in common that ask the gateway every second.

import { fill } from "./table.js";

const most = 100; // rows of a table

export const $ = (selector) => document.querySelector(selector);

/** Returns the JSON of an answer. The error of an answer that will stay the same has the property final. */
async function read(response) {
  const answer = await response.json().catch(() => ({ error: response.statusText }));
  if (!response.ok) throw Object.assign(new Error(answer.error), { final: response.status < 500 });
  return answer;
}

export async function request(path, options) {
  const response = await fetch(path, options).catch(() => { throw new Error("The gateway does not answer."); });
  return read(response);
}

export const ask = (what, question) => request(`api/${what}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });

/** Sets a text. A screen reader announces every assignment, so an equal text is not assigned. */
export function say(selector, text) {
  if ($(selector).textContent !== text) $(selector).textContent = text;
}

const shown = new Map(); // the rows of each table, as JSON

/** Fills the table of a section if its rows have changed, so that a selection and the focus stay. */
export function show(section, heads, rows, cells) {
  const table = $(`#${section} table`);
  const text = JSON.stringify(rows);
  if (shown.get(section) === text) return;
  shown.set(section, text);
  const focused = table.contains(document.activeElement) && document.activeElement.href;
  fill(table, heads, rows.slice(0, most).map(cells));
  table.parentElement.hidden = !rows.length;
  if (focused) [...table.querySelectorAll("a")].find((link) => link.href === focused)?.focus();
}

/** Returns a time, which is a text or the milliseconds since 1970, in UTC, with its date unless it is within a day of another time. */
export function time(when, now, round = Math.ceil) {
  const at = new Date(round(new Date(when) / 1000) * 1000);
  const [day, clock] = at.toISOString().slice(0, 19).split("T");
  return Math.abs(at - Date.parse(now)) < 86_400_000 ? clock : `${day} ${clock}`;
}

export const grouped = (n) => n.toLocaleString("en-US");

export const number = (n, one) => `${grouped(n)} ${n === 1 ? one : `${one}s`}`;

export function element(name, kind, text) {
  const made = document.createElement(name);
  made.className = kind;
  made.textContent = text;
  return made;
}

/** Shows a part of the page now and every second. Its errors appear in a section. */
export async function keep(section, part) {
  let problem;
  if (!document.hidden) {
    problem = await part().catch((error) => error);
    say(`#${section} .error`, problem?.message ?? "");
  }
  if (!problem?.final) setTimeout(keep, 1000, section, part);
}

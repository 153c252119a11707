// Requests to the running gateway: the server sends them and answers with a line for each.

import { startCaller } from "./caller.js";
import { Chart } from "./chart.js";
import { lines } from "./lines.js";

const $ = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");
const mostPoints = 2000;
// Header fields that tell of limits come first.
const telling = ["Retry-After", "Ratelimit", "Ratelimit-Policy", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Weir-Degraded"];
const spelled = (name) => name.replace(/ratelimit/i, "RateLimit");

const counts = { sent: 0, allowed: 0, refused: 0, other: 0 };
let points = { allowed: [], refused: [] };
let begun, running, chart, drawing, drawn = 0;

/** Whether an answer was allowed, refused by a limit, or something else. */
const kindOf = (status) => (status === 429 ? "refused" : status >= 200 && status < 400 ? "allowed" : "other");
const field = (answer, name) => answer.header?.[name]?.join(", ") ?? "";

function draw() {
  if (drawing) return;
  const pause = still.matches ? Math.max(0, drawn + 1000 - performance.now()) : 0; // with less motion, in steps of a second
  drawing = setTimeout(() => requestAnimationFrame(() => {
    drawing = undefined;
    drawn = performance.now();
    chart.set([points.allowed, points.refused]);
  }), pause);
}

function count(kind) {
  counts.sent++;
  counts[kind]++;
  for (const name of Object.keys(counts)) $(name).textContent = counts[name];
  const now = performance.now();
  begun ??= now;
  for (const name of ["allowed", "refused"]) {
    points[name].push([(now - begun) / 1000, counts[name]]);
    points[name].splice(0, points[name].length - mostPoints);
  }
  draw();
}

function element(name, text, kind) {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function showLast(answer, kind) {
  $("last-line").textContent = answer.status ? `${answer.status} ${answer.status_text}` : answer.status_text;
  $("last-line").className = `line ${kind}`;
  const fields = Object.keys(answer.header ?? {}).sort();
  const order = [...telling.filter((name) => fields.includes(name)), ...fields.filter((name) => !telling.includes(name))];
  $("last-header").replaceChildren(...order.flatMap((name) => [element("dt", spelled(name)), element("dd", field(answer, name))]));
  $("last-body").hidden = !answer.body;
  $("last-body").textContent = pretty(answer.body);
}

function pretty(body) {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}

function log(answer, kind) {
  const row = document.createElement("tr");
  const head = element("th", `#${counts.sent}`);
  head.scope = "row";
  const wait = field(answer, "Retry-After");
  row.append(head, element("td", answer.status || "none", kind), element("td", field(answer, "X-Ratelimit-Remaining")),
    element("td", wait && `${wait} s`), element("td", `${answer.latency_ms.toFixed(1)} ms`));
  $("log").prepend(row);
  while ($("log").rows.length > 10) $("log").lastChild.remove();
}

/** Takes in an answer. The first refusal of a run is said; the numbers are said at its end. */
function take(answer, run) {
  const kind = kindOf(answer.status);
  count(kind);
  run[kind]++;
  run.sent++;
  showLast(answer, kind);
  log(answer, kind);
  if (kind === "refused" && run.refused === 1 && run.count > 1) say(`Refused after ${run.allowed} allowed: retry after ${field(answer, "Retry-After")} s.`);
}

const say = (text) => { $("live-status").textContent = text; };

/** What the form says, as the server wants it. */
function order(form, n) {
  const chosen = form.endpoint.selectedOptions[0];
  if (!chosen) throw new Error("The rules are for no endpoint of this API.");
  const { method, path } = chosen.dataset;
  const tier = form.tier.value;
  return { api: form.api.value, method, path, tier, user: tier && form.user.value, count: n ?? Number(form.count.value), rate: Number(form.rate.value) };
}

async function run(form, n) {
  if (running || !form.reportValidity()) return;
  const wanted = order(form, n); // the form is not valid without an endpoint
  const result = { count: wanted.count, sent: 0, allowed: 0, refused: 0, other: 0 };
  running = new AbortController();
  $("live-error").textContent = "";
  enable(form);
  say(wanted.count > 1 ? `Sending ${wanted.count} requests, ${wanted.rate} a second.` : "Sending one request.");
  try {
    const response = await fetch("requests", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(wanted), signal: running.signal });
    if (!response.ok) throw new Error(await response.text());
    for await (const answer of lines(response)) take(answer, result);
    say(`Done: ${result.sent} sent, ${result.allowed} allowed, ${result.refused} refused${result.other ? `, ${result.other} other` : ""}.`);
  } catch (problem) {
    if (running.signal.aborted) say(`Stopped: ${result.sent} sent, ${result.allowed} allowed, ${result.refused} refused.`);
    else {
      say("");
      $("live-error").textContent = problem.message.trim();
    }
  } finally {
    running = undefined;
    enable(form);
    refreshVersion();
  }
}

/** Enables what can be done now. What has the focus keeps it: Start and Stop take turns. */
function enable(form) {
  const start = form.querySelector("[type=submit]");
  const [on, off] = running ? [$("stop"), start] : [start, $("stop")];
  const focused = document.activeElement === off;
  on.disabled = false;
  if (focused) on.focus();
  off.disabled = true;
  $("one").ariaDisabled = running ? "true" : null;
}

/** Offers the endpoints of the API that is chosen, and a user only to who is to have one. */
function offer(form, all) {
  const was = form.endpoint.value;
  form.endpoint.replaceChildren(...all.filter((option) => option.dataset.api === form.api.value));
  if ([...form.endpoint.options].some((option) => option.value === was)) form.endpoint.value = was;
  form.user.disabled = !form.tier.value;
}

function clear() {
  for (const name of Object.keys(counts)) $(name).textContent = counts[name] = 0;
  points = { allowed: [], refused: [] };
  begun = undefined;
  draw();
  $("log").replaceChildren();
  $("last-header").replaceChildren();
  $("last-line").textContent = "None yet.";
  $("last-line").className = "line";
  $("last-body").hidden = true;
  say("Cleared.");
}

/** Shows the version of the rules in force, which may change while the page is open. */
async function refreshVersion() {
  if (document.hidden) return;
  const response = await fetch("state").catch(() => undefined); // it may have ended
  if (!response?.ok) return;
  const { version } = await response.json();
  if ($("version").textContent !== String(version)) $("version").textContent = version; // what is live is said when it changes
}

export function startLive() {
  const form = $("order");
  const all = [...form.endpoint.options];
  chart = new Chart($("live-chart"), $("live-legend"), {
    x: "seconds", y: "requests", series: [
      { label: "Allowed", colour: "allowed", steps: true, width: 3 },
      { label: "Refused", colour: "refused", steps: true, width: 3, dash: "dashed" },
    ],
  });
  offer(form, all);
  form.addEventListener("change", () => offer(form, all));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(form);
  });
  $("one").addEventListener("click", () => run(form, 1));
  $("stop").addEventListener("click", () => running?.abort());
  $("clear").addEventListener("click", clear);
  startCaller(() => order(form));
  setInterval(refreshVersion, 5000);
}

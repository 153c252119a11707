// Starts runs of requests to the gateway. The server sends them and returns one line for each
// answer.

import { Chart } from "./chart.js";
import { lines } from "./lines.js";

const $ = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");
const longest = 120; // seconds that the chart shows at most
// header fields that the page shows before all others
const important = ["Retry-After", "Ratelimit", "Ratelimit-Policy", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Weir-Degraded"];
const spelled = (name) => name.replace(/ratelimit/i, "RateLimit");

const counts = { sent: 0, allowed: 0, refused: 0, other: 0 };
let seconds = []; // for each second since the first request: {allowed, refused, other}
let limit; // the limit with the lowest rate: {name, requests, window}; window is in seconds
let begun, running, chart, drawing, drawn = 0;

/** Returns the counter for a status: allowed, refused or other. */
const kindOf = (status) => (status === 429 ? "refused" : status >= 200 && status < 400 ? "allowed" : "other");
const field = (answer, name) => answer.header?.[name]?.join(", ") ?? "";

function draw() {
  if (drawing) return;
  const pause = still.matches ? Math.max(0, drawn + 1000 - performance.now()) : 0; // with prefers-reduced-motion, redraw at most once a second
  drawing = setTimeout(() => requestAnimationFrame(() => {
    drawing = undefined;
    drawn = performance.now();
    const { from, end } = shownSeconds();
    chart.set(rates(), end, from);
  }), pause);
}

/** Returns the seconds that the chart shows: the most recent ones, and at least ten, which bounds the width of a bar. */
const shownSeconds = () => ({ from: Math.max(0, seconds.length - longest), end: Math.max(10, seconds.length) });

/** Returns the points of the chart: stacked bars of allowed and refused requests in each second, and the limit. */
function rates() {
  const { from, end } = shownSeconds();
  const points = (value) => Array.from({ length: end - from }, (_, i) => [from + i, seconds[from + i] ? value(seconds[from + i]) : 0]);
  const line = limit ? [[from, limit.requests / limit.window], [end, limit.requests / limit.window]] : [];
  return [points((s) => s.allowed + s.refused), points((s) => s.allowed), line];
}

/** Reads RateLimit-Policy, such as "search";q=100;w=60, and stores the limit with the lowest rate. */
function readLimit(policies) {
  const all = [...policies.matchAll(/"([^"]*)";q=(\d+);w=(\d+)/g)].map(([, name, q, w]) => ({ name, requests: Number(q), window: Number(w) }));
  limit = all.sort((a, b) => a.requests / a.window - b.requests / b.window)[0] ?? limit;
  if (limit) chart.label(2, `Limit "${limit.name}": ${limit.requests} in ${limit.window} s (${Number((limit.requests / limit.window).toPrecision(2))} a second)`);
}

function count(kind) {
  counts.sent++;
  counts[kind]++;
  for (const name of Object.keys(counts)) $(name).textContent = counts[name];
  const now = performance.now();
  begun ??= now;
  const second = Math.floor((now - begun) / 1000);
  while (seconds.length <= second) seconds.push({ allowed: 0, refused: 0, other: 0 });
  seconds[second][kind]++;
  draw();
}

function element(name, text, kind) {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function showLast(answer, kind) {
  $("last-line").textContent = answer.status ? `${answer.status} ${answer.statusText}` : answer.statusText;
  $("last-line").className = `line ${kind}`;
  const fields = Object.keys(answer.header ?? {}).sort();
  const order = [...important.filter((name) => fields.includes(name)), ...fields.filter((name) => !important.includes(name))];
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
    element("td", wait && `${wait} s`), element("td", `${answer.latencyMs.toFixed(1)} ms`));
  $("log").prepend(row);
  while ($("log").rows.length > 10) $("log").lastChild.remove();
}

/** Shows an answer. At the first refusal of a run, the status line shows it. */
function take(answer, run) {
  const kind = kindOf(answer.status);
  readLimit(field(answer, "Ratelimit-Policy"));
  count(kind);
  run[kind]++;
  run.sent++;
  showLast(answer, kind);
  log(answer, kind);
  if (kind === "refused" && run.refused === 1 && run.count > 1) say(`Refused after ${run.allowed} allowed requests; retry after ${field(answer, "Retry-After")} s.`);
}

const say = (text) => { $("live-status").textContent = text; };

/** Returns the values of the form, in the format of the server. */
function order(form, n) {
  const { method } = form.endpoint.selectedOptions[0].dataset;
  const tier = form.tier.value;
  return { api: form.api.value, method, path: form.path.value, tier, user: tier && form.user.value, count: n ?? Number(form.count.value), rate: Number(form.rate.value) };
}

async function run(form, n) {
  if (running || !form.reportValidity()) return;
  $("live-error").textContent = form.endpoint.value ? "" : "No rule applies to an endpoint of this API.";
  if (!form.endpoint.value) return;
  const wanted = order(form, n);
  const result = { count: wanted.count, sent: 0, allowed: 0, refused: 0, other: 0 };
  running = new AbortController();
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
  }
}

/** Enables either Start or Stop. If the other one has the focus, moves the focus. */
function enable(form) {
  const start = form.querySelector("[type=submit]");
  const [on, off] = running ? [$("stop"), start] : [start, $("stop")];
  const focused = document.activeElement === off;
  on.disabled = false;
  if (focused) on.focus();
  off.disabled = true;
  $("one").ariaDisabled = running ? "true" : null;
}

let offered; // the endpoint whose path the form has got

/** Offers the endpoints of the chosen API, and the path of a newly chosen endpoint. Enables the user field unless the caller is anonymous. */
function offer(form, all) {
  const was = form.endpoint.value;
  form.endpoint.replaceChildren(...all.filter((option) => option.dataset.api === form.api.value));
  if ([...form.endpoint.options].some((option) => option.value === was)) form.endpoint.value = was;
  if (form.endpoint.value !== offered) {
    offered = form.endpoint.value;
    form.path.value = form.endpoint.selectedOptions[0]?.dataset.path ?? "";
  }
  form.user.disabled = !form.tier.value;
}

function clear() {
  for (const name of Object.keys(counts)) $(name).textContent = counts[name] = 0;
  seconds = [];
  begun = limit = undefined;
  chart.label(2, "Limit");
  draw();
  $("log").replaceChildren();
  $("last-header").replaceChildren();
  $("last-line").textContent = "None yet.";
  $("last-line").className = "line";
  $("last-body").hidden = true;
  say("Cleared.");
}

const form = $("order");
const all = [...form.endpoint.options];
chart = new Chart($("live-chart"), $("live-legend"), {
  x: "seconds", y: "requests a second", series: [
    { label: "Refused", colour: "refused", bars: true },
    { label: "Allowed", colour: "allowed", bars: true },
    { label: "Limit", colour: "text", dash: "dashed" },
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
document.documentElement.dataset.ready = ""; // tests wait for this attribute

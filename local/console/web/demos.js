// Runs the demonstrations: the server plays them, and this file shows the results.

import { Chart, cumulative } from "./chart.js";
import { figures, fill } from "./table.js";

const names = {
  fixed_window: "Fixed window", sliding_window: "Sliding window", sliding_log: "Sliding log",
  token_bucket: "Token bucket", leaky_bucket: "Leaky bucket, queued",
};
const looks = {
  fixed_window: {}, sliding_window: { width: 4 }, sliding_log: { dash: "dashed" },
  token_bucket: { width: 3 }, leaky_bucket: { dash: "dotted", width: 3 },
};
const series = (algorithm) => ({ label: names[algorithm], colour: algorithm, steps: true, ...looks[algorithm] });
const seconds = (ms) => ms / 1000;
const left = (run) => run.requests.filter((r) => r.allowed).map((r) => seconds(r.leavesMs)).sort((a, b) => a - b);
const places = (n) => Number(n.toFixed(1)).toString();

/** The chart of each demonstration, and a function that shows its result. */
const demos = {
  bucket: {
    chart: {
      x: "seconds", y: "tokens", series: [
        { label: "Tokens in the bucket", colour: "token_bucket", steps: true },
        { label: "Admitted", colour: "allowed", points: 7 },
        { label: "Refused", colour: "refused", points: 7 },
      ],
    },
    show({ runs: [run], levels }, { chart, list, table }) {
      const of = (allowed) => run.requests.filter((r) => r.allowed === allowed).map((r) => [seconds(r.atMs), r.remaining]);
      const last = (points) => [...new Map(points)]; // keeps only the last of several points with the same x
      chart.set([levels.map((l) => [seconds(l.atMs), l.tokens]), last(of(true)), last(of(false))], seconds(levels.at(-1).atMs));
      figures(list, [["Admitted at once", run.atOnce], ["Admitted", run.admitted, "allowed"], ["Refused", run.refused, "refused"], ["Most in a second", run.mostInASecond]]);
      fill(table, ["Second", "Admitted"], run.perSecond.map((n, i) => [i + 1, n]));
      const first = run.requests.find((r) => !r.allowed);
      return `${run.atOnce} admitted at once, ${run.admitted} in all, ${run.refused} refused` +
        (first ? `; the first refused request may retry after ${places(first.retryAfterMs)} ms.` : ".");
    },
  },

  boundary: {
    chart: { x: "seconds", y: "admitted", mark: 1, series: ["fixed_window", "sliding_window", "sliding_log"].map(series) },
    show({ runs, spanMs: span }, { chart, list, table }) {
      chart.set(runs.map((run) => cumulative(left(run), 1.5)), 1.5);
      figures(list, runs.map((run, i) => [`${names[run.algorithm]}, within ${places(span)} ms`, run.admitted, i ? "allowed" : "refused"]));
      fill(table, ["Algorithm", "Admitted", "Refused", "Most in a second"], runs.map((run) => [names[run.algorithm], run.admitted, run.refused, run.mostInASecond]));
      return `Within ${places(span)} ms a fixed window admits ${runs[0].admitted}, a sliding window ${runs[1].admitted}, a sliding log ${runs[2].admitted}.`;
    },
  },

  sync: {
    chart: {
      x: "seconds", y: "admitted", series: [
        { label: "All nodes", colour: "token_bucket", steps: true, width: 3 },
        { label: "The node with the most", colour: "sliding_window", steps: true },
        { label: "The node with the least", colour: "leaky_bucket", steps: true, dash: "dashed" },
        { label: "Limit", colour: "refused", dash: "dotted" },
      ],
    },
    show(result, { chart, list, table }) {
      const by = (total) => result.steps.map((s) => [seconds(s.atMs), total(s.perNode)]);
      chart.set([by((n) => n.reduce((a, b) => a + b)), by((n) => Math.max(...n)), by((n) => Math.min(...n)), [[0, result.limit], [1, result.limit]]], 1);
      figures(list, [["Admitted", result.admitted, "allowed"], ["Over the limit", result.overshoot, "refused"], ["Store calls", result.storeCalls], ["By each node", result.perNode.join(" ")]]);
      fill(table, ["Seconds", ...result.perNode.map((_, i) => `Node ${i + 1}`)], result.steps.filter((_, i) => i % 5 === 0).map((s) => [places(seconds(s.atMs)), ...s.perNode]));
      fill(document.getElementById("sweep"), ["Interval", "Admitted", "Over the limit", "Store calls"], result.sweep.map((s) => [`${s.intervalMs} ms`, s.admitted, s.overshoot, s.storeCalls]));
      sweep.set([result.sweep.map((s) => [s.intervalMs, s.admitted]), result.sweep.map((s) => [s.intervalMs, s.admitted]), [[0, result.limit], [1000, result.limit]]], 1000);
      return `${result.admitted} admitted with a limit of ${result.limit}: ${result.overshoot} over the limit, with ${result.storeCalls} store calls.`;
    },
  },

  algorithms: {
    chart: { x: "seconds", y: "left", series: Object.keys(names).map(series) },
    show({ runs, windowMs: window }, { chart, list, table }) {
      const times = runs.map(left);
      const end = Math.max(...times.map((t) => t.at(-1) ?? 0), ...runs.map((run) => seconds(run.requests.at(-1)?.atMs ?? 0)));
      chart.set(times.map((t) => cumulative(t, end)), end);
      figures(list, runs.map((run) => [names[run.algorithm], run.admitted]));
      const most = Math.max(...runs.map((run) => run.perSecond.length));
      const row = (label, value) => [label, ...runs.map(value)];
      fill(table, ["Requests", ...runs.map((run) => names[run.algorithm].replace(", queued", ""))], [
        row("At once", (run) => run.atOnce), row("Admitted", (run) => run.admitted), row("Refused", (run) => run.refused), row("Most in a second", (run) => run.mostInASecond),
        ...Array.from({ length: most }, (_, i) => row(`Left, second ${i + 1}`, (run) => run.perSecond[i] ?? 0)),
      ]);
      return `Admitted of ${runs[0].requests.length} requests: ` + runs.map((run) => `${names[run.algorithm].toLowerCase()} ${run.admitted}`).join(", ") + `. Windows of ${places(seconds(window))} s.`;
    },
  },

  tokens: {
    chart: {
      x: "seconds", y: "tokens", series: [
        { label: "Used, with reserves", colour: "token_bucket", steps: true, width: 3 },
        { label: "Reserved for answers to come", colour: "sliding_log", steps: true, dash: "dashed" },
        { label: "Debt", colour: "refused", steps: true, width: 3 },
        { label: "Limit", colour: "limit", dash: "dotted" },
        { label: "Refused question", colour: "refused", points: 6 },
      ],
    },
    show(result, { chart, list, table }) {
      const { steps, limit } = result;
      const end = seconds(steps.at(-1).atMs);
      const line = (value) => steps.map((s) => [seconds(s.atMs), value(s)]);
      const refused = [...new Set(result.refusedAtMs)].map((at) => [seconds(at), limit]);
      chart.set([line((s) => s.used), line((s) => s.reserved), line((s) => s.debt), [[0, limit], [end, limit]], refused], end);
      figures(list, [["Admitted", result.admitted, "allowed"], ["Refused", result.refused, "refused"], ["Refunded, tokens", result.refunded],
        ["Charged above reserves", result.charged], ["Largest debt", result.mostDebt, "refused"]]);
      fill(table, ["Second", "Used", "Reserved", "Debt"], steps.filter((_, i) => i % 10 === 0).map((s) => [seconds(s.atMs), s.used, s.reserved, s.debt]));
      return `${result.admitted} questions reserved ${result.reserved} tokens and used ${result.reserved - result.refunded + result.charged}: ` +
        `${result.refunded} refunded, ${result.charged} charged above the reserves. The largest debt was ${result.mostDebt}.` +
        (result.excess ? ` ${result.excess} exceeded the largest debt and were not counted.` : "");
    },
  },

  ceiling: {
    chart: {
      x: "seconds", y: "tokens", series: [
        { label: "Used", colour: "token_bucket", steps: true, width: 3 },
        { label: "Used without a part", colour: "sliding_log", steps: true, dash: "dashed" },
        { label: "Part of free callers", colour: "refused", dash: "dotted" },
        { label: "Limit", colour: "limit", dash: "dotted" },
      ],
    },
    show(result, { chart, list, table }) {
      const end = seconds(result.with.used.at(-1).atMs);
      const line = (run) => run.used.map((u) => [seconds(u.atMs), u.tokens]);
      const level = (n) => [[0, n], [end, n]];
      chart.set([line(result.with), line(result.without), level(result.part), level(result.limit)], end);
      const of = (counts, tier) => counts[tier] ?? 0;
      const cells = (run, tier) => [of(run.admitted, tier), of(run.refused, tier)];
      const paid = cells(result.with, "paid");
      const without = cells(result.without, "paid");
      figures(list, [["Paid, admitted", paid[0], "allowed"], ["Paid, refused", paid[1], "refused"],
        ["Paid, admitted without a part", without[0]], ["Paid, refused without a part", without[1]]]);
      fill(table, ["Tier", "Admitted", "Refused", "Admitted without a part", "Refused without a part"],
        ["free", "paid"].map((tier) => [tier, ...cells(result.with, tier), ...cells(result.without, tier)]));
      return `${paid[0]} paid requests admitted and ${paid[1]} refused; without a part, ${without[0]} and ${without[1]}.`;
    },
  },
};

let sweep;

/** Plays the demonstration of a section now and after each change of its form. */
function start(name) {
  const section = document.getElementById(name);
  const form = section.querySelector("form");
  const find = (selector) => section.querySelector(`.view ${selector}`);
  const view = { chart: new Chart(find(".chart"), find(".legend"), demos[name].chart), list: find(".figures"), table: find(".numbers") };
  const error = form.querySelector(".error");
  let asked; // query of the latest run
  const play = async () => {
    if (!form.reportValidity()) return;
    const query = new URLSearchParams(new FormData(form)).toString();
    if (query === asked) return; // Enter causes a change event and a submit event for the same query
    asked = query;
    try {
      const response = await fetch(`demo/${name}?${query}`);
      if (!response.ok) throw new Error(await response.text());
      const result = await response.json();
      if (query !== asked) return; // a newer query has replaced this one
      error.textContent = "";
      find(".status").textContent = demos[name].show(result, view);
      section.dataset.played = query; // tests read the shown query here
    } catch (problem) {
      if (query !== asked) return;
      error.textContent = problem.message.trim();
      asked = undefined;
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    play();
  });
  form.addEventListener("change", () => form.checkValidity() && play());
  return play();
}

sweep = new Chart(document.getElementById("sweep-chart"), document.getElementById("sweep-legend"), {
  x: "sync interval, ms", y: "admitted", height: 220, series: [
    { label: "Admitted in the window", colour: "token_bucket" },
    { label: "One interval", colour: "token_bucket", points: 7 },
    { label: "Limit", colour: "refused", dash: "dotted" },
  ],
});
await Promise.all(Object.keys(demos).map(start));
document.documentElement.dataset.ready = ""; // tests wait for this attribute

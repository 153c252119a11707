// Shows and resets the usage of the chosen caller through the endpoints of package operator.

import { fill } from "./table.js";

const $ = (id) => document.getElementById(id);

/** Sends a question to package operator and returns its answer. */
export async function ask(what, question) {
  const response = await fetch(`api/${what}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });
  const answer = await response.json().catch(() => ({ error: response.statusText }));
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

/** Returns a phrase with the limits that refuse and their subjects. */
function refusers(limits) {
  const list = limits.filter((l) => l.mode === "enforce" && !l.state.passes);
  return list.length ? ` by ${list.map((l) => `${l.name} of ${l.subject}`).join(" and ")}` : "";
}

/** Returns the length of a limit's window, or its period. */
function windowOf(l) {
  if (!l.period) return `${l.windowSeconds} s`;
  return `a ${l.period}${l.anchor ? ` from ${l.anchor}` : ""} (${l.timeZone})`;
}

/** Returns what a limit allows. */
function atMost(l) {
  if (l.count === "concurrent") return `${l.requests} in flight`;
  return `${l.requests} in ${windowOf(l)}${l.count ? `, counts ${l.count}, reserves ${l.cost}` : ""}`;
}

/** Returns the decision as the end of a sentence. */
function verdict(decision, limits) {
  if (decision.allowed) return decision.over ? `allowed, and marked as over ${decision.over}.` : "allowed.";
  if (decision.unrouted) return `answered ${decision.status}: no API has a route for it.`;
  return `refused with ${decision.status}${refusers(limits)}: retry after ${decision.retryAfter} s.`;
}

/** Shows the text before and the decision on the request of an order. Returns the subject of the caller. */
async function explain({ method, path, tier, user }, before = "") {
  const { caller, decision, exempt, limits } = await ask("explain", tier ? { method, path, tier, user } : { method, path });
  $("caller-status").textContent = `${before}${method} ${path} by ${caller.subject}, tier ${caller.tier}, would be ${verdict(decision, limits)}` +
    (exempt ? ` ${exempt.path} (${exempt.name}) exempts the ${exempt.kind} ${exempt.value}.` : "");
  fill($("limits"), ["Limit", "Subject", "Algorithm", "At most", "Remaining"], limits.map((l) => [
    l.mode === "enforce" ? l.name : `${l.name} (${l.mode})`, l.subject, l.algorithm.replaceAll("_", " "),
    atMost(l),
    `${l.state.remaining} of ${l.state.capacity}${l.state.debt ? `, in debt by ${l.state.debt}` : ""}`,
  ]));
  return caller.subject;
}

/** Adds the listeners of the buttons. order returns the chosen request. */
export function startCaller(order) {
  const button = (id, act) => $(id).addEventListener("click", async () => {
    $("caller-error").textContent = "";
    try {
      await act();
    } catch (problem) {
      $("caller-error").textContent = problem.message;
    }
  });
  button("explain", () => explain(order()));
  button("reset", async () => {
    const subject = await explain(order());
    await ask("reset", { subject });
    await explain(order(), `The usage of ${subject} is reset. `);
  });
}

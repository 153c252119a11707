// Shows a caller's answer from the usage endpoint.

import { ask } from "./caller.js";
import { fill } from "./table.js";

const $ = (id) => document.getElementById(id);

/** Returns a bar with the used part of a limit, and the numbers. */
function used(l) {
  const bar = document.createElement("meter");
  Object.assign(bar, { max: l.capacity, low: l.capacity * 0.8, optimum: 0, value: l.used, ariaLabel: `${l.name}: used` });
  const cell = document.createElement("span");
  cell.className = "bar";
  cell.append(bar, `${l.used} of ${l.capacity}`);
  return cell;
}

/** Returns the name of a limit, with what it counts and its mode. */
const named = (l) => [l.name, l.count && `counts ${l.count}`, l.mode && `mode ${l.mode}`].filter(Boolean).join(", ");

const time = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");

async function show(form) {
  const answer = await ask("own", { tier: form.tier.value, user: form.user.value });
  $("usage-status").textContent = `${answer.subject}, tier ${answer.tier}: ${answer.limits.length} ${answer.limits.length === 1 ? "limit" : "limits"}${answer.truncated ? ", and more" : ""}.`;
  fill($("usages"), ["Limit", "Endpoint", "Used", "Remaining", "Full again, UTC"], answer.limits.map((l) => [
    named(l), `${l.method ?? ""} ${l.endpoint}`.trim(), used(l), l.remaining, time(l.reset),
  ]));
  $("usage-body").textContent = JSON.stringify(answer, null, 2);
}

export function startUsage() {
  $("who").addEventListener("submit", async (event) => {
    event.preventDefault();
    $("usage-error").textContent = "";
    try {
      await show(event.target);
    } catch (problem) {
      $("usage-error").textContent = problem.message;
    }
  });
}

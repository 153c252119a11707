// Shows who is limited and why, the limits of a caller, the last refusals and the rules, and reads
// them again every second. Its questions go to the endpoints below api/ and charge nothing.

import { $, ask, element, grouped, keep, number, request, say, show, time } from "./page.js";

const subject = new URLSearchParams(location.search).get("caller")?.trim() ?? "";
const recent = 10_000; // ms: a caller that was refused this recently is limited now, although the wait may be over
const checked = 20; // rows whose usage is read to find out whether the wait has ended early

let since; // when the rules that the page shows were loaded
let inForce; // their limits

/** Returns a duration in its largest unit. */
function age(seconds) {
  const [n, unit] = [[86_400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]].find(([n]) => seconds >= n) ?? [1, "second"];
  return number(Math.floor(seconds / n), unit);
}

/** Returns a link that shows the limits of a caller. The gateway may know only the hash of a caller. */
function callerOf(row) {
  if (!row.caller) return element("span", "long", `${row.subject} (hash)`);
  const link = element("a", "long", row.caller);
  link.href = `?caller=${encodeURIComponent(row.caller)}#caller`;
  return link;
}

/** Returns the limit of a refusal. A malformed path, or too many requests of a caller at once, are refused without one. */
const limitOf = (row) => row.limit ?? "none";

const ruleOf = (rule) => element("span", "long", rule ?? "");

/** Returns when a limit admits a request again. A limit in another mode than enforce refuses nothing. */
function free(when, mode = "enforce") {
  if (when === "now") return when;
  return mode === "enforce" ? element("span", "refused", when) : `${when} (refuses nothing)`;
}

/** Returns a bar with the used part of a limit, and the numbers. A refusal without a limit has none. */
function bar(name, used, capacity, mode = "enforce") {
  if (!capacity) return "";
  const meter = document.createElement("meter");
  const full = mode === "enforce" ? 0.999 : 1; // the color of a refusal begins above this part
  Object.assign(meter, { max: capacity, low: capacity * 0.8, high: capacity * full, optimum: 0, value: used, ariaLabel: `${name}: used` });
  const cell = element("span", "bar", "");
  cell.append(meter, `${grouped(used)} of ${grouped(capacity)}`);
  return cell;
}

/** Returns the use of a limit. If regions share it, the gateway knows only what its region can admit without the others. */
function useOf({ name, state, mode, shared }) {
  if (shared) return `${grouped(state.remaining)} of ${grouped(state.capacity)} left here`;
  return bar(name, state.capacity - state.remaining + (state.debt ?? 0), state.capacity, mode);
}

/** Returns the length of a limit's window, or its period. */
function windowOf(l) {
  if (l.period) return `a ${l.period}${l.anchor ? ` from ${l.anchor}` : ""} (${l.timeZone})`;
  const [n, unit] = [[86_400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([n]) => l.windowSeconds % n === 0);
  return `${l.windowSeconds / n} ${unit}`;
}

/** Returns what a limit allows. */
function atMost(l) {
  if (l.count === "concurrent") return `${grouped(l.requests)} in flight`;
  return `${grouped(l.requests)}${l.count ? ` (${l.count})` : ""} in ${windowOf(l)}${l.burst ? `, ${grouped(l.burst)} at once` : ""}`;
}

/** Returns the name of a limit, with its mode. */
const named = (l) => (l.mode === "enforce" ? l.name : `${l.name} (${l.mode})`);

/** Returns for whom a rule has a limit. */
function tierOf(l) {
  if (l.tier !== "*") return l.tier;
  return inForce?.some((other) => other.rule === l.rule && !["*", "global"].includes(other.tier)) ? "other tiers" : "all tiers";
}

/** Shows refusals, and who of them is limited now. */
async function showRefusals() {
  const { rows, to, count } = await ask("why", { since: "1h" });
  const until = await Promise.all(rows.map((row, i) => waitOf(row, to, i < checked)));
  const limited = rows.map((row, i) => ({ ...row, until: until[i] }))
    .filter((row) => row.until !== "now" || Date.parse(row.last) > Date.parse(to) - recent);
  const callers = new Set(limited.map((row) => row.subject)).size;
  say("#limited .status", callers ? `${number(callers, "caller")} ${callers === 1 ? "was" : "were"} refused in the last ten seconds, or must still wait.` : "No caller is limited now.");
  show("limited", ["Caller", "Limit", "Rule", "Used", "Refused", "Free again, UTC"], limited, (row) => [
    callerOf(row), limitOf(row), ruleOf(row.rule), bar(row.limit, row.capacity - row.remaining, row.capacity), number(row.count, "time"), free(row.until),
  ]);
  say("#refusals .status", count ? `${number(count, "refusal")} in the last hour.` : "No request was refused in the last hour.");
  rows.sort((a, b) => Date.parse(b.last) - Date.parse(a.last));
  show("refusals", ["Last, UTC", "Caller", "Limit", "Rule", "Times", "Retry after"], rows.map((row) => ({ ...row, at: time(row.last, to, Math.floor) })), (row) => [
    row.at, callerOf(row), limitOf(row), ruleOf(row.rule), grouped(row.count), `${grouped(Math.ceil(row.retryAfterSeconds))} s`,
  ]);
}

/** Shows what limits in shadow mode would have refused. Most rules have none, and no such section then. */
async function showShadow() {
  const { rows, to } = await ask("why", { since: "1h", shadow: true });
  show("shadow", ["Last, UTC", "Caller", "Limit", "Rule", "Times"], rows.map((row) => ({ ...row, at: time(row.last, to, Math.floor) })), (row) => [
    row.at, callerOf(row), limitOf(row), ruleOf(row.rule), grouped(row.count),
  ]);
  $("#shadow").hidden = !rows.length;
}

/** Returns when the limit of a refusal admits a request again. A reset, a new tier or new rules can have ended the wait. */
async function waitOf({ caller, limit, rule, last, retryAfterSeconds: wait }, now, check) {
  const ends = Date.parse(last) + wait * 1000;
  const is = (l) => l.name === limit && l.metricsRule === rule;
  if (ends <= Date.parse(now) || limit && inForce && !inForce.some(is)) return "now";
  const { at, limits } = caller && check ? await ask("usage", { subject: caller }).catch(() => ({ limits: [] })) : { limits: [] };
  const same = limits.filter(is);
  if (!same.length) return time(ends, now, Math.round); // such as a limit that counts by the caller's address
  const own = same.filter((l) => !l.otherTier);
  const decides = own.find((l) => !l.state.passes) ?? own[0];
  return decides ? freeAgain(decides.state, at) : "now";
}

/** Shows the limits of the caller: first those that refuse, then by use. */
async function showCaller() {
  const { subject: name, at, limits } = await ask("usage", { subject });
  const used = limits.filter(({ state, shared }) => !state.passes || (shared ? state.charged : state.remaining < state.capacity));
  const refusing = used.filter((l) => !l.state.passes && !l.otherTier && l.mode === "enforce").length;
  const share = (l) => (l.state.passes ? l.state.remaining / l.state.capacity : -1);
  say("#caller .status", `${name} uses ${used.length} of ${number(limits.length, "limit")}${refusing ? `; ${refusing} ${refusing === 1 ? "refuses" : "refuse"} now` : ""}.`);
  show("caller", ["Limit", "Tier", "Rule", "At most", "Used", "Free again, UTC", "Full again, UTC"], used.sort((a, b) => share(a) - share(b)).map((l) => ({
    ...l, free: freeAgain(l.state, at), full: time(l.state.fullAt, at),
  })), (l) => [named(l), tierOf(l), ruleOf(l.rule), atMost(l), useOf(l), free(l.free, l.mode), l.full]);
  $("#reset").hidden = false;
}

/** Returns when the limit of a state admits a request again. */
function freeAgain(state, at) {
  if (state.passes) return "now";
  return state.never ? "never" : time(Date.parse(at) + state.retryAfterSeconds * 1000, at);
}

async function reset() {
  say("#caller .error", "");
  try {
    await ask("reset", { subject });
    await showCaller();
  } catch (problem) {
    say("#caller .error", problem.message);
  }
}

/** Shows the version and the age of the rules, and their limits if the rules are new. */
async function showRules() {
  const state = await request("state");
  say("#version", state.rules);
  say("#age", `, in force for ${age(state.ageSeconds)}`);
  say("#rules-error", state.problem ? `The document has mistakes, and is not in force:\n${state.problem}` : "");
  if (state.since === since) return;
  inForce = await request("limits");
  show("rules", ["Rule", "Tier", "Limit", "At most", "Algorithm"], inForce, (l) => [
    ruleOf(l.rule), tierOf(l), named(l), atMost(l), l.algorithm.replaceAll("_", " "),
  ]);
  since = state.since;
}

$("#subject").value = subject;
$("#reset").addEventListener("click", reset);
await Promise.all([keep("limited", showRefusals), keep("shadow", showShadow), keep("rules", showRules), subject && keep("caller", showCaller)]);
document.documentElement.dataset.ready = ""; // tests wait for this attribute

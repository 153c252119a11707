// Shows the regions of a local run, their shares and the last transfers, and cuts regions off. It reads them again every
// second, and charges nothing.

import { $, ask, element, grouped, keep, number, say, show, time } from "./page.js";

const subject = new URLSearchParams(location.search).get("caller")?.trim() ?? "";

/** Returns a text for share that moved: what a region got, or gave. */
function movedOf(n) {
  if (!n) return "none";
  return n > 0 ? `got ${grouped(n)}` : `gave ${grouped(-n)}`;
}

/** Returns the button that cuts a region off, or ends that. */
function button({ name, cut }) {
  const made = element("button", "", cut ? "Connect" : "Cut off");
  made.type = "button";
  made.dataset.region = name;
  made.ariaLabel = `${cut ? "Connect" : "Cut off"} ${name}`;
  made.addEventListener("click", async () => {
    made.disabled = true;
    const problem = await ask("regions/cut", { region: name, cut: !cut }).then(refresh).catch((error) => error);
    say("#regions .error", problem?.message ?? "");
    made.disabled = false;
    [...document.querySelectorAll("#regions button")].find((other) => other.dataset.region === name)?.focus(); // the table can be a new one
  });
  return made;
}

function consoleOf({ name, url }) {
  const link = element("a", "long", url);
  link.href = `${url}/_weir/regions`;
  link.ariaLabel = `${name}: ${url}`;
  return link;
}

function showState({ at, regions, shares, transfers }) {
  const cut = regions.filter((r) => r.cut).map((r) => r.name);
  say("#regions .status", cut.length ? `${cut.join(", ")}: cut off from the other regions.` : "All regions reach each other.");
  show("regions", ["Region", "Gateway", "Link", "Switch"], regions, (r) => [
    r.name, consoleOf(r), r.cut ? element("span", "refused", "cut off") : "connected", button(r),
  ]);
  say("#shares .status", shares.length ? "" : subject ? `${subject} has used no limit that regions share.` : "Enter a caller, or send requests until a region asks another one.");
  show("shares", ["Caller", "Limit", "Region", "Base share", "Moved", "Used", "Left"], shares, (s) => [
    element("span", "long", s.subject), `${s.limit}${s.rule ? `, ${s.rule}` : ""}`, s.region, grouped(s.base), movedOf(s.moved), grouped(s.used), grouped(s.remaining),
  ]);
  say("#transfers .status", transfers.length ? "" : "No region has asked another one.");
  show("transfers", ["Time, UTC", "Region", "Asked", "Caller", "Limit", "Answer", "After"], transfers.map((t) => ({ ...t, when: time(t.at, at, Math.floor) })), (t) => [
    t.when, t.region, t.from, element("span", "long", t.subject), t.limit,
    t.problem ? element("span", "refused long", t.problem) : t.moved ? `${number(t.moved, "request")} moved` : "nothing is free", `${grouped(t.milliseconds)} ms`,
  ]);
}

const refresh = async () => showState(await ask("regions", { subject }));

$("#subject").value = subject;
await keep("shares", refresh);
document.documentElement.dataset.ready = ""; // tests wait for this attribute

// Shows what the server tells, and fetches the report again whenever it has changed. All text goes in as text; the
// report is Formant's own page, in which nothing of the log is markup.
"use strict";

const part = (id) => document.getElementById(id);
const show = (figure) => (figure === null || figure === undefined ? "–" : figure.toFixed(1));
let shown = -1;
let fetching = false;

function list(id, texts, make) {
  part(id).replaceChildren(...texts.map(make));
}

function item(text, kind) {
  const element = document.createElement("li");
  element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

function row(cells) {
  const line = document.createElement("tr");
  cells.forEach((text, place) => {
    const cell = document.createElement(place === 0 ? "th" : "td");
    if (place === 0) cell.scope = "row";
    cell.textContent = text;
    line.append(cell);
  });
  return line;
}

function state(live) {
  const status = live.status;
  if (status) {
    const there = status.clients.filter((client) => client.present).length;
    const who = `${there} of ${status.clients.length} clients are here`;
    return status.end
      ? `over after ${status.end.rounds} rounds${status.end.stopped ? `: ${status.end.stopped}` : ""}; ${who}`
      : `round ${status.round} of ${status.rounds}, open for ${Math.round(status.round_seconds)} s; ${who}`;
  }
  if (live.state === "waiting") return "waiting for the log";
  if (live.state === "over") return "the run is over";
  const quiet = live.quiet > 0 ? `; nothing new for ${live.quiet} s` : "";
  const [place, methods] = live.methods;
  const which = methods > 1 ? ` (${place} of ${methods})` : "";
  return `${live.method}${which}: ${live.rounds[0]} of ${live.rounds[1]} rounds done${quiet}`;
}

function clients(status) {
  part("clients-part").hidden = !status;
  if (!status) return;
  const refused = Object.entries(status.refused).map(([reason, count]) => `${count} × ${reason}`);
  const sizes = `${(status.received_bytes / 1e6).toFixed(1)} MB received, ${(status.sent_bytes / 1e6).toFixed(1)} MB sent`;
  part("traffic").textContent = `${sizes}; refused: ${refused.join(", ") || "nothing"}`;
  list("live-clients", status.clients, (client) =>
    item(
      `${client.name}: ${client.present ? "here" : "away"}${client.uploaded ? ", has uploaded" : ""}`,
      client.present ? "here" : "away",
    ),
  );
}

// Keeps what the reader has opened and chosen over a new drawing.
async function report(version) {
  if (fetching || version === shown) return;
  fetching = true;
  try {
    const answer = await fetch("/report");
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const place = part("report");
    const open = [...place.querySelectorAll("details")].map((one) => one.open);
    const chosen = [...place.querySelectorAll("input:checked")].map((one) => one.id);
    const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
    let style = part("report-style");
    if (!style) {
      style = document.createElement("style");
      style.id = "report-style";
      document.head.prepend(style);
    }
    style.textContent = [...fresh.querySelectorAll("style")].map((one) => one.textContent).join("\n");
    place.replaceChildren(...fresh.querySelector("main").childNodes);
    place.querySelectorAll("details").forEach((one, at) => (one.open = open[at] ?? one.open));
    chosen.filter(Boolean).forEach((id) => part(id) && (part(id).checked = true));
    if (focused && part(focused)) part(focused).focus({ preventScroll: true });
    shown = version;
  } finally {
    fetching = false;
  }
}

function tell(live) {
  const name = live.name || (live.status && live.status.name) || "Formant";
  part("name").textContent = name;
  document.title = `${Math.round(100 * live.done)} % · ${name}`;
  part("state").textContent = state(live);
  const status = live.status;
  part("done").value = status && live.version === 0 ? (status.round - 1) / status.rounds : live.done;
  part("problem").hidden = !live.problem;
  part("problem").textContent = live.problem || "";
  part("scores").tBodies[0].replaceChildren(...live.scores.map((one) => row([one.title, show(one.gm), show(one.pm)])));
  list("recent", live.recent, (text) => item(text));
  clients(status);
  if (live.version > 0) report(live.version);
}

const events = new EventSource("/events");
events.addEventListener("live", (event) => tell(JSON.parse(event.data)));
events.addEventListener("error", () => {
  part("state").textContent = "the watcher has gone; it is tried again";
});

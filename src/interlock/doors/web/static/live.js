// Keeps a page current, and copies the token of a sign-in link into the sign-in form.
//
// Elements that the script uses:
//      #line [data-reached data-now]  the connection state; the log position of the page, and the
//                                     server's time when it rendered the page
//      [data-part] [data-source]      a part of the page, and the URL of its HTML
//      [data-key]                     a piece of a part, or a row of a list; [data-rows] is a list
//      time[data-clock]               a time of day, in the viewer's time zone
//      time[data-ago], [data-left]    elapsed or remaining time, updated every second
//      #sign-in                       the form that gets the token from the address
//
// The script inserts only HTML that the server has escaped.

"use strict";

const SILENT_MS = 30_000; // the server sends an event every ten seconds
const RETRY_MS = 2_000;
const GRACE_MS = 1_500; // the page does not report a shorter loss
const SOON_MS = 300_000;

// --- signing in

function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  const form = document.getElementById("sign-in");
  if (form === null) return;
  form.elements.token.value = token;
  form.requestSubmit();
}

// --- times, in the same format as views.py

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const two = (number) => String(number).padStart(2, "0");
let ahead = 0; // milliseconds by which the server's clock is ahead of the browser's

function clock(at) {
  const today = new Date(Date.now() + ahead).toDateString();
  const day = at.toDateString() === today ? "" : `${at.getDate()} ${MONTHS[at.getMonth()]} `;
  return `${day}${two(at.getHours())}:${two(at.getMinutes())}`;
}

function ago(seconds) {
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h ago`;
  return `${Math.floor(seconds / 86400)}d ago`;
}

function left(seconds) {
  const days = Math.floor(seconds / 86400);
  const hours = Math.floor(seconds / 3600) % 24;
  const minutes = Math.floor(seconds / 60) % 60;
  if (days > 0) return `${days}d ${two(hours)}h`;
  if (hours > 0) return `${hours}h ${two(minutes)}m`;
  return `${minutes}m ${two(seconds % 60)}s`;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function showTimes() {
  const now = Date.now() + ahead;
  for (const time of document.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    if ("clock" in time.dataset) setText(time, clock(at));
    if ("ago" in time.dataset) setText(time, ago(Math.floor(Math.max(0, now - at) / 1000)));
    if ("left" in time.dataset) {
      setText(time, left(Math.floor(Math.max(0, at - now) / 1000)));
      time.classList.toggle("soon", at - now < SOON_MS);
    }
  }
}

// --- replacing pieces of the page

// The HTML of each piece as the server sent it, without the text of its times.
const sent = new WeakMap();

function remember(part) {
  for (const piece of part.querySelectorAll("[data-key]")) {
    sent.set(piece, piece.outerHTML.replace(/>[^<]*<\/time>/g, "></time>"));
  }
}

function parsed(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  remember(holder.content);
  return holder.content;
}

// Leaves unchanged pieces in the page, so that they do not move.
function merge(old, fresh) {
  const before = new Map([...old.children].map((piece) => [piece.dataset.key, piece]));
  const stays = [...fresh.children].map((piece) => successor(before.get(piece.dataset.key), piece));
  for (const piece of before.values()) if (!stays.includes(piece)) piece.remove();
  let place = old.firstElementChild;
  for (const piece of stays) {
    if (piece === place) place = place.nextElementSibling;
    else old.insertBefore(piece, place);
  }
}

function successor(old, fresh) {
  if (old === undefined) {
    fresh.classList.add("fresh");
    return fresh;
  }
  if (sent.get(old) === sent.get(fresh)) return old;
  if ("rows" in old.dataset && "rows" in fresh.dataset) {
    merge(old, fresh);
    sent.set(old, sent.get(fresh));
    return old;
  }
  for (const opened of old.querySelectorAll("details[open]")) {
    const again = fresh.querySelector(`#${CSS.escape(opened.id)}`);
    if (again !== null) again.open = true;
  }
  return fresh;
}

// Keeps the scroll position and the focus.
function swap(part, html) {
  const focused = document.activeElement?.id;
  const scroller = part.closest(".scrolls") ?? document.scrollingElement;
  const seen = scroller.scrollTop > 0 ? firstSeen(part) : undefined;
  const top = seen?.getBoundingClientRect().top;
  merge(part, parsed(html));
  showTimes();
  if (seen?.isConnected) scroller.scrollTop += seen.getBoundingClientRect().top - top;
  if (focused && document.activeElement?.id !== focused) {
    document.getElementById(focused)?.focus({ preventScroll: true });
  }
}

function firstSeen(part) {
  const rows = part.querySelectorAll("[data-rows] > [data-key]");
  return [...rows].find((row) => row.getBoundingClientRect().bottom > 0);
}

// --- fetching changed parts

const parts = [...document.querySelectorAll("[data-part]")];
const wanted = new Set();
let fetching = false;

async function refresh() {
  if (fetching || document.hidden) return;
  fetching = true;
  try {
    while (wanted.size > 0) {
      const now = parts.filter((part) => wanted.has(part.dataset.part));
      wanted.clear();
      await Promise.all(now.map(renew));
    }
  } finally {
    fetching = false;
  }
}

let leaving = false;

// The server refuses several parts at once, but the page goes to the sign-in page only once.
function leave() {
  if (leaving) return;
  leaving = true;
  location.assign("/");
}

async function renew(part) {
  try {
    const response = await fetch(part.dataset.source, { cache: "no-store" });
    if (response.status === 401) leave();
    else if (response.ok) swap(part, await response.text());
  } catch {
    lost.add(part.dataset.part); // fetched again when the connection is back
  }
}

// --- the connection

const line = document.getElementById("line");
const lost = new Set();
let reached = line?.dataset.reached;
let lossTimer;

function show(state, text) {
  clearTimeout(lossTimer);
  lossTimer = undefined;
  line.dataset.state = state;
  setText(line, text);
}

function isBack() {
  show("live", "Live");
  for (const name of lost) wanted.add(name);
  lost.clear();
  refresh();
}

function isLost() {
  lossTimer ??= setTimeout(() => show("lost", "Connection lost, reconnecting"), GRACE_MS);
}

function connect() {
  const source = new EventSource(`/live?after=${encodeURIComponent(reached)}`);
  let timer;
  const resetTimer = () => {
    clearTimeout(timer);
    timer = setTimeout(reconnect, SILENT_MS);
  };
  const reconnect = () => {
    clearTimeout(timer);
    source.close();
    isLost();
    setTimeout(connect, RETRY_MS);
  };
  resetTimer();
  source.addEventListener("open", () => {
    resetTimer();
    isBack();
  });
  source.addEventListener("changed", (event) => {
    resetTimer();
    reached = event.lastEventId;
    for (const name of event.data.split(" ")) wanted.add(name);
    refresh();
  });
  source.addEventListener("error", () => {
    isLost();
    // CLOSED means that the server refused: the owner signed out. The next fetch leaves the page.
    if (source.readyState === EventSource.CLOSED) {
      reconnect();
      wanted.add("header");
      refresh();
    }
  });
}

takeToken();
addEventListener("hashchange", takeToken);
if (line !== null) {
  const [visit] = performance.getEntriesByType("navigation");
  ahead = Number(line.dataset.now) - performance.timeOrigin - visit.responseStart;
  parts.forEach(remember);
  showTimes();
  setInterval(showTimes, 1000);
  document.addEventListener("visibilitychange", refresh);
  connect();
}

// Keeps a page current, and carries the token of a sign-in link into its form.
//
// map: #line [data-reached data-now]  the state of the connection; where in the log the page was
//                                     made, and when by the server's clock
//      [data-part] [data-source]      a part of the page, and where its HTML is fetched from
//      [data-key]                     a piece of a part, or a row of a list; [data-rows] is a list
//      time[data-clock]               a moment, said in the viewer's zone
//      time[data-ago], [data-left]    how long ago, how much is left: said again every second
//      #sign-in                       the form that takes the token from the address
//
// The script puts only HTML into the page that the server has escaped.

"use strict";

const SILENT_MS = 30_000; // the server says something every ten seconds
const RETRY_MS = 2_000;
const GRACE_MS = 1_500; // a shorter loss is not worth a word
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

// --- times, in the same words as views.py

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const two = (number) => String(number).padStart(2, "0");
let ahead = 0; // by how much the server's clock is ahead of ours

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

function say(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

function sayTimes() {
  const now = Date.now() + ahead;
  for (const time of document.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    if ("clock" in time.dataset) say(time, clock(at));
    if ("ago" in time.dataset) say(time, ago(Math.floor(Math.max(0, now - at) / 1000)));
    if ("left" in time.dataset) {
      say(time, left(Math.floor(Math.max(0, at - now) / 1000)));
      time.classList.toggle("soon", at - now < SOON_MS);
    }
  }
}

// --- putting fresh pieces in the place of old ones

// The HTML of each piece as the server sent it, without the words of its times.
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

// Keeps unchanged pieces, so that they do not move.
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

// Keeps what the viewer looks at where it is, and what has the focus in focus.
function swap(part, html) {
  const focused = document.activeElement?.id;
  const scroller = part.closest(".scrolls") ?? document.scrollingElement;
  const seen = scroller.scrollTop > 0 ? firstSeen(part) : undefined;
  const top = seen?.getBoundingClientRect().top;
  merge(part, parsed(html));
  sayTimes();
  if (seen?.isConnected) scroller.scrollTop += seen.getBoundingClientRect().top - top;
  if (focused && document.activeElement?.id !== focused) {
    document.getElementById(focused)?.focus({ preventScroll: true });
  }
}

function firstSeen(part) {
  const rows = part.querySelectorAll("[data-rows] > [data-key]");
  return [...rows].find((row) => row.getBoundingClientRect().bottom > 0);
}

// --- fetching what has changed

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

// Several parts are refused at once; the page goes to the door once.
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
    lost.add(part.dataset.part); // asked for again when the connection is back
  }
}

// --- the connection

const line = document.getElementById("line");
const lost = new Set();
let reached = line?.dataset.reached;
let doubt;

function show(state, words) {
  clearTimeout(doubt);
  doubt = undefined;
  line.dataset.state = state;
  say(line, words);
}

function isBack() {
  show("live", "Live");
  for (const name of lost) wanted.add(name);
  lost.clear();
  refresh();
}

function isLost() {
  doubt ??= setTimeout(() => show("lost", "Connection lost, trying again"), GRACE_MS);
}

function connect() {
  const source = new EventSource(`/live?after=${encodeURIComponent(reached)}`);
  let watch;
  const heard = () => {
    clearTimeout(watch);
    watch = setTimeout(again, SILENT_MS);
  };
  const again = () => {
    clearTimeout(watch);
    source.close();
    isLost();
    setTimeout(connect, RETRY_MS);
  };
  heard();
  source.addEventListener("open", () => {
    heard();
    isBack();
  });
  source.addEventListener("changed", (event) => {
    heard();
    reached = event.lastEventId;
    for (const name of event.data.split(" ")) wanted.add(name);
    refresh();
  });
  source.addEventListener("error", () => {
    isLost();
    // Refused, not broken off: the owner signed out. The next fetch leaves the page.
    if (source.readyState === EventSource.CLOSED) {
      again();
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
  sayTimes();
  setInterval(sayTimes, 1000);
  document.addEventListener("visibilitychange", refresh);
  connect();
}

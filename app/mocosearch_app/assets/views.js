// Goes from look to look: follows the address, asks for the view, and puts the person where they were or at its top.

import { canonical, opened, surprise, wanted, withOpen } from "./address.js";
import { busy, complain, say } from "./notices.js";
import { keepPlace, returnToPlace } from "./places.js";
import { ask, firstView } from "./questions.js";

let current = null; // the section on the page
let asked = ""; // the look that was asked for last
let wall = ""; // the wall to go back to
let follows = false; // a link is being followed, not the way back
let again = 0;
const listeners = [];

export const look = () => current.dataset.look;

// Call `listener` with the section of every view that comes.
export function onView(listener) {
  listeners.push(listener);
  if (current) listener(current);
}

// Follow a link to an address; an empty one leads to the wall seen last.
export function go(address) {
  complain("");
  const next = canonical(address) || wall || surprise("");
  if (next === wanted() && next === asked) return scrollTo({ top: 0 });
  follows = true;
  if (next === wanted() && !opened()) return show(next);
  location.hash = next; // and that shows it
}

addEventListener("hashchange", () => {
  if (!current) return; // the first view looks at the address when it comes
  const next = wanted();
  if (!next) return go("");
  if (next !== asked) show(next);
});

async function show(next) {
  clearTimeout(again);
  keepPlace(current);
  const back = !follows;
  follows = false;
  asked = next;
  busy(true);
  const focused = document.activeElement?.id;
  place(await ask("look", next), focused, back);
}

// Ask once more for what is on the page, where work goes on.
async function refresh() {
  const focused = document.activeElement?.id;
  place(await ask("look", asked), focused, false);
}

async function act(action) {
  clearTimeout(again);
  const focused = document.activeElement?.id;
  place(await ask("act", action), focused, false);
}

function place(section, focused, back) {
  const { look, title, says, again: after } = section.dataset;
  const isNew = look !== current?.dataset.look;
  const isFirst = current === null;
  current = section;
  busy(false);
  if (look) {
    history.replaceState(history.state, "", withOpen(look, opened())); // in the server's spelling
    asked = wanted(); // a button leads to its tab, a page beyond the last one to that
  }
  if (look.startsWith("wall=")) wall = look;
  document.title = `${title} · mocosearch`;
  for (const listener of listeners) listener(section);
  if (isNew) {
    if (back) returnToPlace(section);
    else if (!isFirst) scrollTo({ top: 0 });
    say(says ?? title);
  }
  if (!isFirst && document.activeElement === document.body) focus(section, focused);
  if (after) again = setTimeout(refresh, Number(after));
}

// The element that had the focus may be there again; else those who hear the page go on from the heading.
function focus(section, id) {
  const element = (id && section.querySelector(`[id="${CSS.escape(id)}"]`)) || section.querySelector("h1");
  element?.focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const action = event.target.closest("[data-action]");
  if (action) return act(action.dataset.action);
  const link = event.target.closest('a[href^="#"]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault(); // the page has a base address, which would turn this into a reload
  go(link.getAttribute("href").slice(1));
});

// The first view is a wall of the server's choice; the address may want something else.
export async function start() {
  history.scrollRestoration = "manual";
  const section = await firstView();
  asked = section.dataset.look;
  const next = wanted();
  if (next && next !== asked) {
    current = section;
    wall = asked;
    follows = true;
    return show(next);
  }
  place(section, "", false);
}

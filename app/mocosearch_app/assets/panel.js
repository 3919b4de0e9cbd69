// The panel with all that is known of a photo. The photo's id stands in the address, so that Back closes the panel.

import { opened, wanted, withOpen } from "./address.js";
import { addMore } from "./endless.js";
import { ask } from "./questions.js";
import { onView } from "./views.js";

const dialog = () => document.getElementById("panel");
const inside = () => dialog().querySelector(".inside");
const holders = () => [...document.querySelectorAll("#view [data-id]")];
const at = (id) => holders().findIndex((holder) => holder.dataset.id === id);

let shown = null; // the id of the photo in the panel, or on its way into it

export function openPanel(id) {
  history.pushState({ panel: true }, "", withOpen(wanted(), id));
  follow();
}

// Show the photo that is `step` places further in the grid.
export async function turn(step) {
  const place = at(shown) + step;
  if (place >= holders().length) await addMore();
  const next = holders()[place];
  if (!next || at(shown) < 0) return;
  history.replaceState(history.state, "", withOpen(wanted(), next.dataset.id));
  follow();
}

// Do as the address says.
async function follow() {
  const id = opened();
  if (id === shown) return;
  shown = id;
  if (!id) return dialog().close();
  if (!dialog().open) {
    inside().replaceChildren();
    dialog().showModal();
  }
  const answer = await ask("photo", `${id} ${wanted()}`);
  if (id !== shown) return;
  inside().replaceChildren(answer.cloneNode(true)); // Gradio keeps its own
  const name = inside().querySelector("h2")?.textContent ?? answer.textContent;
  dialog().setAttribute("aria-label", name);
  document.getElementById("panel-status").textContent = name; // the page's own is not heard while a dialog is open
  offerTurns();
}

function offerTurns() {
  const place = at(shown);
  const grid = document.querySelector("#view .grid");
  const last = place + 1 >= holders().length && !grid?.dataset.next;
  document.getElementById("previous").disabled = place < 1;
  document.getElementById("next-photo").disabled = place < 0 || last;
  if (!dialog().querySelector(":focus:enabled, a:focus")) dialog().querySelector("[data-close]").focus();
}

function closed() {
  const holder = holders()[at(shown)];
  if (opened()) {
    if (history.state?.panel) history.back();
    else history.replaceState(null, "", withOpen(wanted(), null)); // came by a link
  }
  shown = null;
  holder?.querySelector("a, button")?.focus();
}

addEventListener("hashchange", follow);
onView(() => {
  follow();
  if (shown) offerTurns(); // the panel may have been there before its grid
});

document.addEventListener("close", (event) => event.target.id === "panel" && closed(), true); // it does not bubble
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.id === "previous") turn(-1);
  if (button?.id === "next-photo") turn(1);
});

// The grid goes on as one scrolls: tiles that follow are asked for before its end comes into sight.

import { complain, say } from "./notices.js";
import { addTiles } from "./places.js";
import { ask } from "./questions.js";
import { look, onView } from "./views.js";

const AHEAD = "1200px";

let asking = null; // the grid that more tiles were asked for
const sight = new IntersectionObserver(
  (entries) => {
    if (entries.some((entry) => entry.isIntersecting)) addMore();
  },
  { rootMargin: `0px 0px ${AHEAD}` },
);

onView(watch);

function watch() {
  sight.disconnect(); // it tells of changes only: what is still in sight is told anew
  const button = document.querySelector("#view .more:not([hidden])");
  if (button) sight.observe(button);
}

export async function addMore() {
  const grid = document.querySelector("#view .grid");
  if (!grid?.dataset.next || asking === grid) return;
  asking = grid;
  const answer = await ask("next", `${look()} ${grid.dataset.next}`);
  asking = null;
  if (!grid.isConnected) return;
  if (!answer.matches("ul")) {
    addTiles(grid, [], "");
    return complain(answer.textContent);
  }
  addTiles(grid, [...answer.children].map((tile) => tile.cloneNode(true)), answer.dataset.next); // Gradio keeps its own
  say(`${answer.children.length} more photos`);
  watch();
}

document.addEventListener("click", (event) => {
  if (event.target.closest("#view .more")) addMore();
});

// What can be done with a photo in the grid, with an example of the search, and with the photo in the panel.

import { MOST, withExample, withFirst, withoutExample } from "./address.js";
import { complain, copy } from "./notices.js";
import { openPanel } from "./panel.js";
import { go, look } from "./views.js";

const DO = {
  detail: openPanel,
  more: (id) => take("like", id),
  less: (id) => take("unlike", id),
};

// Do what the tool called `tool` does with a photo, if it has this tool.
export function use(tool, holder) {
  if (!holder?.querySelector(`[data-tool="${tool}"]`)) return false;
  DO[tool](holder.dataset.id);
  return true;
}

function take(kind, id) {
  const next = withExample(look(), kind, id);
  if (next) go(next);
  else complain(`A search goes by at most ${MOST} pictures of each kind: take one away first.`);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const { tool, remove, large, copy: text } = button.dataset;
  if (tool) DO[tool](button.closest("[data-id]").dataset.id);
  if (remove) go(withoutExample(look(), button.dataset.kind, remove));
  if (large) go(withFirst(look(), large));
  if (text) copy(text, button);
});

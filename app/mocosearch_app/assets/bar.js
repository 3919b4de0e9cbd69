// The bar: the tab one is on, surprise me, the link to copy, help.

import { surprise, wanted } from "./address.js";
import { copy } from "./notices.js";
import { go, look, onView } from "./views.js";

const tabOf = (look) => ["duplicates", "library"].find((tab) => look.startsWith(tab)) ?? "photos";

onView((section) => {
  const current = tabOf(section.dataset.look || wanted());
  document.body.dataset.tab = current;
  for (const link of document.querySelectorAll("#top [data-tab]")) {
    if (link.dataset.tab === current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.id === "surprise") go(surprise(look()));
  if (button?.id === "link") copy(`${location.origin}${location.pathname}#${look()}`, button);
  if (button?.id === "ask-help") document.getElementById("help").showModal();
  if (button?.matches("[data-close]")) button.closest("dialog").close();
  if (event.target.matches("dialog")) event.target.close(); // beside it
});

// What sticks further below has to know how high the top is.
const height = new ResizeObserver(([{ contentRect }]) => {
  document.body.style.setProperty("--top", `${Math.round(contentRect.height)}px`);
});
onView(() => height.observe(document.getElementById("top")));

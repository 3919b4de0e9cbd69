// Lists that a person has opened stay open while their view comes again and again, because work goes on.

import { onView } from "./views.js";

const open = new Set(); // ids

document.addEventListener(
  "toggle",
  ({ target }) => {
    if (target.open) open.add(target.id);
    else open.delete(target.id);
  },
  true, // this event does not bubble
);

onView((section) => {
  for (const list of section.querySelectorAll("details[id]")) list.open = open.has(list.id);
});

// Where a person was in the views they left: the tiles that were added while scrolling, and how far down.

const MOST = 20; // views
const places = new Map(); // by look, the latest last

export function keepPlace(section) {
  const grid = section.querySelector(".grid");
  if (!grid) return;
  const { look } = section.dataset;
  places.delete(look);
  places.set(look, { top: scrollY, added: [...grid.querySelectorAll("[data-added]")], next: grid.dataset.next });
  if (places.size > MOST) places.delete(places.keys().next().value);
}

export function returnToPlace(section) {
  const place = places.get(section.dataset.look);
  if (place?.added.length) addTiles(section.querySelector(".grid"), place.added, place.next);
  scrollTo({ top: place?.top ?? 0 });
}

// Put further tiles at the end of a grid; `next` is where those after them start, if there are any.
export function addTiles(grid, tiles, next) {
  if (!grid) return;
  const known = new Set([...grid.children].map((tile) => tile.dataset.id)); // the library may have changed in between
  for (const tile of tiles) {
    tile.dataset.added = "";
    if (!known.has(tile.dataset.id)) grid.append(tile);
  }
  if (next) grid.dataset.next = next;
  else delete grid.dataset.next;
  grid.parentElement.querySelector(".more")?.toggleAttribute("hidden", !next);
}

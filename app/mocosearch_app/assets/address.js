// What stands behind the # of the address: a look, as the server spells it, and the photo that is open in the panel.
//
// wall=7&folder=2024  |  like=12@0,0,500,500&like=u9f..&unlike=40&min=0.8  |  duplicates  |  library     ...&open=12

const FILTERS = ["folder", "from", "to", "min"];
export const MOST = 8; // examples of each kind
const SEEDS = 1_000_000;

function spell(fields) {
  const text = new URLSearchParams(fields).toString();
  return text.replaceAll("%40", "@").replaceAll("%2C", ",").replace(/=(?=&|$)/g, ""); // the tabs have no value
}

// An address in one spelling, without the photo in the panel.
export function canonical(address) {
  const fields = new URLSearchParams(address);
  fields.delete("open");
  return spell(fields);
}

export const wanted = () => canonical(location.hash.slice(1));
export const opened = () => new URLSearchParams(location.hash.slice(1)).get("open");
export const withOpen = (look, id) => (id ? `#${look}&open=${id}` : `#${look}`);

// The parts of a wall or a search.
export function parse(look) {
  const fields = new URLSearchParams(look);
  const filters = FILTERS.filter((name) => fields.get(name)).map((name) => [name, fields.get(name)]);
  return {
    wall: fields.get("wall"),
    like: fields.getAll("like"),
    unlike: fields.getAll("unlike"),
    filters: Object.fromEntries(filters),
  };
}

// The address of some parts; without a picture to search with it is a wall.
export function write({ wall, like = [], unlike = [], filters = {} }) {
  const fields = like.length
    ? [...like.map((each) => ["like", each]), ...unlike.map((each) => ["unlike", each])]
    : [["wall", wall ?? Math.floor(Math.random() * SEEDS)]];
  return spell([...fields, ...FILTERS.filter((name) => filters[name]).map((name) => [name, filters[name]])]);
}

export const surprise = (look) => write({ filters: withoutScore(parse(look).filters) });

export const filtered = (look, filters) => write({ ...parse(look), filters });

const name = (example) => example.split("@")[0];

// The look with one more example; null when there are as many as there may be.
export function withExample(look, kind, example) {
  const parts = parse(look);
  for (const each of ["like", "unlike"]) parts[each] = parts[each].filter((other) => name(other) !== name(example));
  parts[kind].push(example);
  return parts[kind].length > MOST || !parts.like.length ? null : write(parts);
}

export function withoutExample(look, kind, example) {
  const parts = parse(look);
  parts[kind] = parts[kind].filter((other) => other !== example);
  return write(parts.like.length ? parts : { filters: withoutScore(parts.filters) });
}

// The look that shows this example large: the first one is.
export function withFirst(look, example) {
  const parts = parse(look);
  return write({ ...parts, like: [example, ...parts.like.filter((other) => other !== example)] });
}

// The look that goes by a part of an example, [left, top, width, height] in per mille; null: by all of it.
export function withPart(look, example, box) {
  const parts = parse(look);
  const part = box ? `${name(example)}@${box.join(",")}` : name(example);
  return write({ ...parts, like: parts.like.map((other) => (other === example ? part : other)) });
}

function withoutScore({ min, ...others }) {
  return others;
}

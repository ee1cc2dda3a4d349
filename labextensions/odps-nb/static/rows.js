// The nodes of the sidebar (projects, schemas, tables, columns), and the rows that show them.

// What is inside a node of this kind, and how the kernel is asked for it.
const INSIDE = {
  root: { ask: "projects", path: () => [] },
  project: { ask: "schemas", path: (node) => [node.name] },
  schema: { ask: "tables", path: (node) => [node.parent.name, node.name] },
  table: { ask: "columns", path: (node) => [node.full] },
};
const KINDS = { projects: "project", schemas: "schema", tables: "table", columns: "column" };

export function newRoot() {
  return { kind: "root", name: "", children: null, open: true };
}

// The question whose answer has the children of a node.
export function questionOf(node) {
  const { ask, path } = INSIDE[node.kind];
  return [ask, path(node)];
}

// Give a node the children that an answer names; return those that open by themselves.
export function fill(node, answer) {
  const kind = KINDS[answer.kind];
  node.more = answer.more;
  node.children = answer.items.map((item) => {
    const facts = kind === "column" ? item : { name: item };
    const child = { ...facts, kind, parent: node };
    if (kind === "table") child.full = answer.prefix + item;
    if (kind !== "column") Object.assign(child, { children: null, open: false });
    return child;
  });
  if (kind === "project") return node.children.filter((one) => one.name === answer.current);
  return kind === "schema" && node.children.length === 1 ? node.children : [];
}

// The rows of all that is open; with `filter`, tables whose name contains it and what they are in.
export function rowsOf(node, filter, level = 1) {
  const found = filter.toLowerCase();
  const shown = (node.children ?? []).filter((child) => !found || isKept(child, found));
  const rows = [];
  for (const [n, child] of shown.entries()) {
    rows.push({ ...rowOf(child), level, position: n + 1, size: shown.length });
    if (child.open) rows.push(...inside(child, filter, level + 1));
  }
  return rows;
}

// How many tables are known, and how many of them the filter leaves.
export function count(node, filter) {
  const found = filter.toLowerCase();
  let [known, kept] = [0, 0];
  for (const child of node.children ?? []) {
    if (child.kind === "table") {
      known += 1;
      kept += matches(child, found);
    } else if (child.kind !== "column") {
      const below = count(child, filter);
      known += below.known;
      kept += below.kept;
    }
  }
  return { known, kept };
}

function* notes(node) {
  if (node.asking) yield "asking the kernel …";
  yield* node.problem ?? [];
  const isEmpty = node.children?.length === 0;
  if (isEmpty) yield node.kind === "table" ? "no columns" : "nothing here";
  if (node.more) yield `only the first ${node.children.length.toLocaleString("en")} are shown`;
}

function inside(node, filter, level) {
  const rows = rowsOf(node, filter, level);
  for (const text of notes(node)) {
    rows.push({ node: { parent: node, text }, name: text, level, isNote: true });
  }
  return rows;
}

function isKept(node, found) {
  if (node.kind === "column") return true;
  if (matches(node, found)) return true;
  return node.kind !== "table" && (node.children ?? []).some((child) => isKept(child, found));
}

function matches(node, found) {
  return node.name.toLowerCase().includes(found);
}

function rowOf(node) {
  const row = { node, name: node.name, open: node.open, busy: node.asking };
  if (node.kind === "table") return { ...row, title: node.full, use: "insert read" };
  if (node.kind !== "column") return { ...row, detail: node.kind };
  const detail = node.partition ? `${node.type} · partition` : node.type;
  return { ...row, detail, title: [`${node.name} ${detail}`, node.comment].filter(Boolean).join("\n") };
}

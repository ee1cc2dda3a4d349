// The nodes of the sidebar (projects, schemas, tables, columns, partitions), and their rows.

import { rowsIn } from "./insert.js";

// For each kind of node, the query for its children and the path to send with the query.
const INSIDE = {
  root: { ask: "projects", path: () => [] },
  project: { ask: "schemas", path: (node) => [node.name] },
  schema: { ask: "tables", path: (node) => [node.parent.name, node.name] },
  table: { ask: "columns", path: (node) => [node.full] },
  partitions: { ask: "partitions", path: (node) => [node.parent.full] },
};
const KINDS = { projects: "project", schemas: "schema", tables: "table", partitions: "partition" };

export function newRoot() {
  return { kind: "root", name: "", children: null, open: true };
}

// Returns the query for the children of a node.
export function questionOf(node) {
  const { ask, path } = INSIDE[node.kind];
  return [ask, path(node)];
}

// Sets the children of a node from a response; returns those that open automatically.
export function fill(node, answer) {
  if (node.kind === "table") return describe(node, answer);
  const kind = KINDS[answer.kind];
  node.more = answer.more;
  node.children = answer.items.map((item) => {
    if (kind === "partition") return { ...item, kind, parent: node };
    const child = { name: item, kind, parent: node, children: null, open: false };
    if (kind === "table") child.full = answer.prefix + item;
    return child;
  });
  if (kind === "project") return node.children.filter((one) => one.name === answer.current);
  return kind === "schema" && node.children.length === 1 ? node.children : [];
}

// Sets a table's columns, row count and partitions; `facts` is null if they are unknown.
export function describe(table, facts) {
  table.isAsked = true;
  if (!facts) return [];
  table.rows = facts.rows;
  table.children = facts.items.map((item) => ({ ...item, kind: "column", parent: table }));
  if (facts.partitioned) {
    const group = { kind: "partitions", name: "partitions", children: null, open: false };
    table.children.push({ ...group, parent: table });
  }
  return [];
}

// The known tables, or only those whose columns were not requested yet.
export function* tablesOf(node, { unasked = false } = {}) {
  for (const child of node.children ?? []) {
    if (child.kind !== "table") yield* tablesOf(child, { unasked });
    else if (!unasked || !child.isAsked) yield child;
  }
}

// The rows of all open nodes. With `filter`, only tables with the text in their name or a column
// name, and the nodes that contain these tables.
export function rowsOf(node, filter, level = 1) {
  const found = filter.toLowerCase();
  const shown = (node.children ?? []).filter((child) => !found || isKept(child, found));
  const rows = [];
  for (const [n, child] of shown.entries()) {
    rows.push({ ...rowOf(child, found), level, position: n + 1, size: shown.length });
    if (child.open) rows.push(...inside(child, filter, level + 1));
  }
  return rows;
}

// Returns the number of known tables, and the number that matches the filter.
export function count(node, filter) {
  const tables = [...tablesOf(node)];
  const found = filter.toLowerCase();
  return { known: tables.length, kept: tables.filter((one) => isKept(one, found)).length };
}

function* notes(node) {
  if (node.asking) yield "waiting for the kernel …";
  yield* node.problem ?? [];
  const isEmpty = node.children?.length === 0;
  if (isEmpty) yield "empty";
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
  if (["column", "partitions", "partition"].includes(node.kind) || matches(node, found)) return true;
  if (node.kind === "table") return columnsWith(node, found).length > 0;
  return (node.children ?? []).some((child) => isKept(child, found));
}

function matches(node, found) {
  return node.name.toLowerCase().includes(found);
}

function columnsWith(table, found) {
  return (table.children ?? []).filter((one) => one.kind === "column" && matches(one, found));
}

// Returns the actions of a row. The key of each is its first letter; Enter and a double click run
// the first one.
function usesOf(node) {
  if (node.kind === "column") return ["insert", "copy"];
  const rows = node.kind === "table" ? rowsIn(node.full) : rowsIn(node.parent.parent.full, node.name);
  return rows === null ? ["copy"] : ["read", "preview", "explore", "copy"];
}

function rowOf(node, found) {
  const row = { node, name: node.name, open: node.open, busy: node.asking };
  if (node.kind === "column") {
    const detail = node.partition ? `${node.type} · partition` : node.type;
    const title = [`${node.name} ${detail}`, node.comment].filter(Boolean).join("\n");
    return { ...row, detail, title, uses: usesOf(node) };
  }
  if (node.kind === "partitions") return row;
  if (!["table", "partition"].includes(node.kind)) return { ...row, detail: node.kind };
  const columns = found && node.kind === "table" ? columnsWith(node, found) : [];
  const size = typeof node.rows === "number" ? `${node.rows.toLocaleString("en")} rows` : "";
  const detail = [columns.map((one) => one.name).join(", "), size].filter(Boolean).join(" · ");
  return { ...row, detail, title: node.full ?? node.name, uses: usesOf(node) };
}

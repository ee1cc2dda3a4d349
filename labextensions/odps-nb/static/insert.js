// Writes to the notebook: a new cell for a magic, a name at the cursor. A name comes from the
// service: only plain names become part of a magic, and in SQL others are quoted.

const PLAIN = /^[\p{L}\p{N}_.]+$/u;
const PLAIN_PARTITION = /^[\p{L}\p{N}_.:=,/-]+$/u;
const LINES = {
  read: (rows, variable) => `%odps read ${rows} -n 1000${variable ? ` -o ${variable}` : ""}`,
  preview: (rows) => `%odps head ${rows}`,
  explore: (rows) => `%odps explore ${rows}`,
};

// The arguments that select a table or partition in a magic; null where its name is not plain.
export function rowsIn(table, partition) {
  if (!PLAIN.test(table)) return null;
  if (partition === undefined) return table;
  return PLAIN_PARTITION.test(partition) ? `${table} -p ${partition}` : null;
}

// A new cell below the active one. It never changes another cell, and only `read` waits for the
// user to run it: the others assign no variable.
export function insertMagic(panel, NotebookActions, use, rows, variable) {
  const cell = newCell(panel, NotebookActions, LINES[use](rows, variable));
  if (use === "read") edit(panel, cell, cell.model.sharedModel.getSource().length);
  else NotebookActions.run(panel.content, panel.sessionContext);
}

// The variables named `base`, or `base` and a number, in any cell: not all of them exist yet.
export function variablesIn(panel, base) {
  const sources = panel.content.widgets.map((cell) => cell.model.sharedModel.getSource());
  return [...new Set(sources.join("\n").match(new RegExp(`\\b${base}\\d*\\b`, "g")))];
}

// A name at the cursor of the active cell, in back-quotes where SQL needs them. Where that is not
// code, or was run, the name is in a new cell.
export function insertName(panel, NotebookActions, name) {
  if (/[\p{C}\p{Zl}\p{Zp}]/u.test(name)) return;
  const text = /^[\p{L}_][\p{L}\p{N}_.]*$/u.test(name) ? name : `\`${name.replaceAll("`", "``")}\``;
  const active = panel.content.activeCell;
  const isWritten = active?.model.type === "code" && !active.readOnly && !wasRun(active);
  const cell = isWritten ? active : newCell(panel, NotebookActions, "");
  const { sharedModel } = cell.model;
  const end = sharedModel.getSource().length;
  const cursor = cell.editor?.getOffsetAt(cell.editor.getCursorPosition()) ?? end;
  const at = Math.min(cursor, end);
  sharedModel.updateSource(at, at, text);
  edit(panel, cell, at + text.length);
}

// "[ ]:" until the first run, then "[*]:" or "[5]:".
function wasRun(cell) {
  return /[\d*]/.test(cell.node.querySelector(".jp-InputPrompt")?.textContent ?? "");
}

function newCell(panel, NotebookActions, text) {
  NotebookActions.insertBelow(panel.content);
  NotebookActions.changeCellType(panel.content, "code");
  const cell = panel.content.activeCell;
  cell.model.sharedModel.setSource(text);
  return cell;
}

function edit(panel, cell, at) {
  panel.content.mode = "edit";
  cell.editor?.setCursorPosition(cell.editor.getPositionAt(at));
  cell.editor?.focus();
}

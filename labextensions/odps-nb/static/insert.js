// Writes to the notebook: a magic in a new cell, or a name at the cursor. Names come from the
// service, so only plain names are inserted into a magic, and others are quoted in SQL.

const PLAIN = /^[\p{L}\p{N}_.]+$/u;
const PLAIN_PARTITION = /^[\p{L}\p{N}_.:=,/-]+$/u;
const LINES = {
  read: (rows, variable) => `%odps read ${rows} -n 1000${variable ? ` -o ${variable}` : ""}`,
  preview: (rows) => `%odps head ${rows}`,
  explore: (rows) => `%odps explore ${rows}`,
};

// Returns the arguments that select a table or partition in a magic; null if a name is not plain.
export function rowsIn(table, partition) {
  if (!PLAIN.test(table)) return null;
  if (partition === undefined) return table;
  return PLAIN_PARTITION.test(partition) ? `${table} -p ${partition}` : null;
}

// Adds a cell below the active one, and changes no other cell. The user must run a `read` cell,
// because it assigns a variable; other cells run immediately.
export function insertMagic(panel, NotebookActions, use, rows, variable) {
  const cell = newCell(panel, NotebookActions, LINES[use](rows, variable));
  if (use === "read") edit(panel, cell, cell.model.sharedModel.getSource().length);
  else NotebookActions.run(panel.content, panel.sessionContext);
}

// Returns the variables named `base`, or `base` and a number, that occur in any cell, run or not.
export function variablesIn(panel, base) {
  const sources = panel.content.widgets.map((cell) => cell.model.sharedModel.getSource());
  return [...new Set(sources.join("\n").match(new RegExp(`\\b${base}\\d*\\b`, "g")))];
}

// Inserts a name at the cursor of the active cell, in back-quotes if SQL needs them. If that cell
// is not a code cell or has been run, inserts the name into a new cell.
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

// The prompt is "[ ]:" until the first run, then "[*]:" or "[5]:".
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

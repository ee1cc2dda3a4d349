// Inserts names into the notebook's active cell and runs nothing. A name comes from the service, and
// the user runs the cell afterwards: a name with other characters than those of names is quoted.

// `%odps read` of a table on a line of its own; in a cell of ours, which has SQL, the name alone.
export function insertRead(panel, name, NotebookActions) {
  const cell = usableCell(panel, NotebookActions);
  const source = cell.model.sharedModel.getSource();
  if (/^\s*%%odps\b/.test(source)) return insertText(panel, name, NotebookActions);
  if (!/^[\p{L}\p{N}_.]+$/u.test(name)) return;
  const line = `%odps read ${name} -n 1000 -o df`;
  if (source.trim() === "") return replace(panel, cell, 0, source.length, line);
  const cursor = cell.editor ? offset(cell.editor, source) : source.length;
  const end = source.indexOf("\n", cursor);
  const at = end < 0 ? source.length : end;
  const before = source.slice(source.lastIndexOf("\n", at - 1) + 1, at);
  return replace(panel, cell, at, at, before.trim() === "" ? line : `\n${line}`);
}

// A name at the cursor; in back-quotes where SQL needs them.
export function insertText(panel, name, NotebookActions) {
  if (/[\p{C}\p{Zl}\p{Zp}]/u.test(name)) return;
  const text = /^[\p{L}_][\p{L}\p{N}_.]*$/u.test(name) ? name : `\`${name.replaceAll("`", "``")}\``;
  const cell = usableCell(panel, NotebookActions);
  const source = cell.model.sharedModel.getSource();
  const at = cell.editor ? offset(cell.editor, source) : source.length;
  return replace(panel, cell, at, at, text);
}

function offset(editor, source) {
  return Math.min(editor.getOffsetAt(editor.getCursorPosition()), source.length);
}

function replace(panel, cell, from, to, text) {
  cell.model.sharedModel.updateSource(from, to, text);
  panel.content.mode = "edit";
  cell.editor?.setCursorPosition(cell.editor.getPositionAt(from + text.length));
  cell.editor?.focus();
}

// The active cell if it is code that may be edited, else a new one below.
function usableCell(panel, NotebookActions) {
  const notebook = panel.content;
  const active = notebook.activeCell;
  const isUsable = active?.model.type === "code" && !active.readOnly;
  if (!isUsable) NotebookActions.insertBelow(notebook);
  return notebook.activeCell;
}

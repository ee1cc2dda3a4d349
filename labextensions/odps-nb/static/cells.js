// Adds a cell with the code of an explorer (exports.js) below the cell that shows it; runs nothing.

export function addCells(tracker, NotebookActions) {
  document.addEventListener("odps-nb-cell", (event) => {
    const panel = tracker.find((one) => one.node.contains(event.target));
    const notebook = panel?.content;
    const at = notebook?.widgets.findIndex((one) => one.node.contains(event.target)) ?? -1;
    if (at < 0 || typeof event.detail !== "string") return;
    event.preventDefault();
    notebook.activeCellIndex = at;
    NotebookActions.insertBelow(notebook);
    NotebookActions.changeCellType(notebook, "code");
    notebook.activeCell.model.sharedModel.setSource(event.detail);
    notebook.activeCell.editor?.focus();
  });
}

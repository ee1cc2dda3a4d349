// The plugins of the extension. A plugin does nothing if JupyterLab lacks a service that it needs.

export async function plugins(shared) {
  const offered = (name) => shared(name).catch(() => ({}));
  const [codemirror, notebook, application] = await Promise.all([
    offered("@jupyterlab/codemirror"),
    offered("@jupyterlab/notebook"),
    offered("@jupyterlab/application"),
  ]);
  return [
    {
      id: "odps-nb:colouring",
      description: "Colours SQL in cells that begin with %%odps sql or %%odps spark.",
      autoStart: true,
      optional: [codemirror.IEditorExtensionRegistry, codemirror.IEditorLanguageRegistry],
      activate: quietly(async (app, extensions, languages) => {
        const { addColouring } = await import("./colouring.js");
        await addColouring(shared, extensions, languages);
      }),
    },
    {
      id: "odps-nb:sidebar",
      description: "Shows projects, schemas, tables and columns in a sidebar.",
      autoStart: true,
      optional: [notebook.INotebookTracker, application.ILayoutRestorer],
      activate: quietly(async (app, tracker, restorer) => {
        const { addSidebar } = await import("./sidebar.js");
        await addSidebar(shared, app, tracker, restorer);
      }),
    },
    {
      id: "odps-nb:cells",
      description: "Adds a cell with the code of an explorer below it.",
      autoStart: true,
      optional: [notebook.INotebookTracker],
      activate: quietly(async (app, tracker) => {
        const { addCells } = await import("./cells.js");
        addCells(tracker, notebook.NotebookActions);
      }),
    },
  ].filter((plugin) => plugin.optional.every(Boolean));
}

// Wraps an activation: does nothing without the required service, and logs a warning on failure.
function quietly(activate) {
  return async (app, needed, other) => {
    if (!needed) return; // e.g. a page without notebooks
    try {
      await activate(app, needed, other);
    } catch (error) {
      console.warn("odps-nb: a part of the extension could not be started:", error);
    }
  };
}

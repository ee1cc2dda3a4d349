// The two plugins of the extension. Each is left out where JupyterLab lacks what it needs.

export async function plugins(shared) {
  return (await Promise.all([colouring(shared), sidebar(shared)])).filter((one) => one !== null);
}

async function colouring(shared) {
  try {
    const { IEditorExtensionRegistry, IEditorLanguageRegistry } = await shared(
      "@jupyterlab/codemirror"
    );
    return {
      id: "odps-nb:colouring",
      description: "Colours SQL in cells that begin with %%odps sql or %%odps spark.",
      autoStart: true,
      optional: [IEditorExtensionRegistry, IEditorLanguageRegistry],
      async activate(app, extensions, languages) {
        if (!extensions || !languages) return;
        const { addColouring } = await import("./colouring.js");
        await addColouring(shared, extensions, languages);
      },
    };
  } catch (error) {
    console.warn("odps-nb: SQL in cells is not coloured:", error);
    return null;
  }
}

async function sidebar(shared) {
  try {
    const [{ INotebookTracker }, { ILayoutRestorer }] = await Promise.all([
      shared("@jupyterlab/notebook"),
      shared("@jupyterlab/application"),
    ]);
    return {
      id: "odps-nb:sidebar",
      description: "Shows projects, schemas, tables and columns in a sidebar.",
      autoStart: true,
      optional: [INotebookTracker, ILayoutRestorer],
      async activate(app, tracker, restorer) {
        if (!tracker) return; // a page without notebooks
        const { addSidebar } = await import("./sidebar.js");
        await addSidebar(shared, app, tracker, restorer);
      },
    };
  } catch (error) {
    console.warn("odps-nb: there is no sidebar of tables:", error);
    return null;
  }
}

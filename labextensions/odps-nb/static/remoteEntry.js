// The entry point that JupyterLab loads: the hand-written container of a federated extension.
//
// JupyterLab calls `init` with the modules that it shares, by name and version, and then `get` for
// the module that package.json names. The other files in this folder are ES modules, loaded on
// demand; see docs/decisions/notebook.md.
(() => {
  const base = document.currentScript.src;
  let offered = {};

  // Returns the shared module with this name: the loaded version, else the newest (a singleton).
  async function shared(name) {
    const versions = Object.entries(offered[name] ?? {});
    if (versions.length === 0) throw new Error(`odps-nb: JupyterLab shares no ${name}`);
    const order = new Intl.Collator("en", { numeric: true });
    versions.sort(([a, x], [b, y]) => Boolean(x.loaded) - Boolean(y.loaded) || order.compare(a, b));
    const factory = await versions.at(-1)[1].get();
    return factory();
  }

  async function get() {
    const { plugins } = await import(new URL("plugins.js", base));
    const extension = { __esModule: true, default: await plugins(shared) };
    return () => extension;
  }

  const init = (scope) => {
    offered = scope;
  };
  (window._JUPYTERLAB ??= {})["odps-nb"] = { init, get };
})();

// The sidebar: the tables that the magics in the current notebook's kernel can access.

import { insertMagic, insertName, rowsIn, variablesIn } from "./insert.js";
import { ask } from "./kernel.js";
import { count, describe, fill, newRoot, questionOf, rowsOf, tablesOf } from "./rows.js";
import { Tree, element } from "./tree.js";

const ID = "odps-nb-sidebar";
// Maximum tables described by one kernel request, so that cells in between are not delayed. A schema
// with at most this many tables is described when it opens, to show the row counts.
const AT_A_TIME = 100; // with one request to the service
const MAX_SEARCHED = 1000; // maximum tables whose columns a filter reads
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">
<g class="jp-icon3 jp-icon-selectable" fill="#616161"><path d="M8 1c3.6 0 6 1 6 2.3S11.600 5.600 8
5.600 2 4.600 2 3.300 4.400 1 8 1z"/><path d="M2 5v3c0 1.300 2.400 2.300 6 2.300S14 9.300 14
8V5c-1 1-3.300 1.600-6 1.600S3 6 2 5z"/><path d="M2 9.700v3C2 14 4.400 15 8 15s6-1 6-2.300v-3c-1
1-3.300 1.600-6 1.600s-5-.6-6-1.600z"/></g></svg>`;

export async function addSidebar(shared, app, tracker, restorer) {
  const [{ Widget }, { LabIcon }, { NotebookActions }, { Clipboard }] = await Promise.all([
    shared("@lumino/widgets"),
    shared("@jupyterlab/ui-components"),
    shared("@jupyterlab/notebook"),
    shared("@jupyterlab/apputils"),
  ]);
  addStyle();
  const browser = new Browser(tracker, NotebookActions, Clipboard);
  class Panel extends Widget {
    onAfterShow() {
      browser.look();
    }
    onActivateRequest() {
      browser.tree.node.focus();
    }
  }
  const panel = new Panel({ node: browser.node });
  panel.id = ID;
  panel.title.caption = "MaxCompute tables";
  panel.title.icon = new LabIcon({ name: "odps-nb:tables", svgstr: ICON });
  browser.isVisible = () => panel.isVisible;
  app.shell.add(panel, "left", { rank: 650 });
  restorer?.add(panel, ID);
}

function addStyle() {
  const link = element("link", "");
  link.rel = "stylesheet";
  link.href = new URL("style.css", import.meta.url).href;
  document.head.append(link);
}

class Browser {
  constructor(tracker, NotebookActions, Clipboard) {
    Object.assign(this, { tracker, NotebookActions, Clipboard, isVisible: () => false });
    this.said = "";
    this.known = new WeakMap(); // notebook -> {root, kernel, stale, fresh}
    this.watched = new WeakSet();
    this.tree = new Tree({
      label: "Projects, tables and columns",
      hint:
        "Enter or R reads a table in a new cell, P shows its first rows, E explores it, " +
        "C copies its name. Enter inserts the name of a column.",
      onToggle: (node) => this.toggle(node),
      onUse: (node, use) => this.use(node, use),
    });
    this.build();
    tracker.currentChanged.connect(() => this.look());
    NotebookActions.executed.connect((_, { notebook, cell }) => this.ran(notebook, cell));
  }

  build() {
    this.filter = element("input", "odpsNb-filter");
    this.filter.type = "search";
    this.filter.placeholder = "Filter tables, columns";
    this.filter.setAttribute("aria-label", "Filter tables and columns");
    this.filter.addEventListener("input", () => this.search());
    this.filter.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.tree.node.focus();
    });
    const refresh = element("button", "odpsNb-refresh", "Refresh");
    refresh.addEventListener("click", () => this.refresh());
    const head = element("div", "odpsNb-head");
    head.append(this.filter, refresh);
    this.status = element("div", "odpsNb-status");
    this.status.setAttribute("role", "status");
    this.node = element("div", "odpsNb-sidebar");
    this.node.append(head, this.tree.uses, this.status, this.tree.node);
  }

  // Shows the current notebook's tables; requests them only if the sidebar is visible.
  async look() {
    const panel = this.tracker.currentWidget;
    if (panel) this.watch(panel);
    this.draw();
    if (!panel || !this.isVisible()) return;
    await panel.sessionContext.ready;
    const kernel = panel.sessionContext.session?.kernel;
    const before = this.known.get(panel);
    if (!kernel) this.known.delete(panel);
    else if (before?.kernel !== kernel || before.stale) {
      const state = { root: newRoot(), kernel, stale: false, fresh: Boolean(before?.fresh) };
      this.known.set(panel, state);
      await this.open(state, state.root);
    }
    this.draw();
  }

  watch(panel) {
    if (this.watched.has(panel)) return;
    this.watched.add(panel);
    const forget = () => {
      this.known.delete(panel);
      if (panel === this.tracker.currentWidget) this.look();
    };
    panel.sessionContext.kernelChanged.connect(forget);
    panel.sessionContext.statusChanged.connect((_, status) => {
      if (status === "restarting" || status === "autorestarting") this.known.delete(panel);
      if (status === "idle" && !this.known.has(panel)) forget();
    });
  }

  // A cell with our magics may have connected to a service, or to another one.
  ran(notebook, cell) {
    const source = cell.model.sharedModel.getSource();
    const panel = this.tracker.find((one) => one.content === notebook);
    const state = panel && this.known.get(panel);
    if (!state || !source.includes("odps")) return;
    if (!state.root.waiting && !/%odps\s+connect/.test(source)) return;
    state.stale = true;
    this.look();
  }

  refresh() {
    const state = this.state();
    if (state) Object.assign(state, { stale: true, fresh: true });
    this.look();
  }

  state() {
    const panel = this.tracker.currentWidget;
    return panel ? this.known.get(panel) : undefined;
  }

  // The filter also applies to known columns; unknown ones are requested.
  search() {
    this.said = "";
    this.draw();
    const state = this.state();
    if (state) this.read(state);
  }

  // Requests the columns and row counts of the tables in a node, and of those to be filtered.
  async read(state, node) {
    if (state.reading) return;
    state.reading = true;
    try {
      let tables = this.unread(state, node);
      while (tables.length > 0 && !state.stale) {
        this.draw();
        const names = tables.map((table) => table.full);
        const answer = await ask(state.kernel, "described", names, false);
        tables.forEach((table, n) => table.children ?? describe(table, answer.items?.[n]));
        tables = this.unread(state, node);
      }
    } catch (error) {
      this.said = `The kernel did not respond: ${error.message}`;
    }
    state.reading = false;
    this.draw();
  }

  unread(state, node) {
    const isSearched = this.filter.value && [...tablesOf(state.root)].length <= MAX_SEARCHED;
    const inside = isSearched ? state.root : node;
    return inside ? [...tablesOf(inside, { unasked: true })].slice(0, AT_A_TIME) : [];
  }

  toggle(node) {
    this.said = "";
    node.open = !node.open;
    if (node.open && node.children === null) this.open(this.state(), node);
    else this.draw();
  }

  // Requests the children of a node, with one request per expansion.
  async open(state, node) {
    if (node.asking) return;
    Object.assign(node, { open: true, asking: true, problem: null });
    this.draw();
    let answer;
    try {
      answer = await ask(state.kernel, ...questionOf(node), state.fresh);
    } catch (error) {
      answer = { problem: [`The kernel did not respond: ${error.message}`], waiting: true };
    }
    node.asking = false;
    Object.assign(node, { problem: answer.problem ?? null, waiting: Boolean(answer.waiting) });
    const next = answer.problem ? [] : fill(node, answer);
    this.draw();
    await Promise.all(next.map((child) => this.open(state, child)));
    if (answer.kind !== "tables") return;
    const isShort = answer.items.length <= AT_A_TIME;
    await this.read(state, isShort ? node : null);
  }

  // Delays a read until the previous one is inserted, so that they use different variables.
  use(node, use) {
    const panel = this.tracker.currentWidget;
    if (!panel) return;
    const done = Promise.resolve(use === "read" ? this.lastRead : null)
      .then(() => this.useNow(panel, node, use))
      .catch((error) => this.say(`${use} failed: ${error.message}`));
    if (use === "read") this.lastRead = done;
  }

  async useNow(panel, node, use) {
    this.say("");
    if (use === "copy") {
      const text = node.full ?? node.name;
      this.Clipboard.copyToSystem(text);
      return this.say(`copied ${text}`);
    }
    if (use === "insert") return insertName(panel, this.NotebookActions, node.name);
    const isTable = node.kind === "table";
    const rows = isTable ? rowsIn(node.full) : rowsIn(node.parent.parent.full, node.name);
    const variable = use === "read" ? await this.newVariable(panel) : null;
    insertMagic(panel, this.NotebookActions, use, rows, variable);
  }

  // Returns a name used neither in the kernel nor in a cell; undefined without a response.
  async newVariable(panel) {
    this.say("Waiting for the kernel …");
    const { kernel } = this.known.get(panel);
    const { name } = await ask(kernel, "variable", variablesIn(panel, "df"), false);
    this.say("");
    return name;
  }

  say(text) {
    this.said = text;
    this.draw();
  }

  draw() {
    const root = this.state()?.root;
    this.tree.show(root ? rowsOf(root, this.filter.value) : []);
    this.status.replaceChildren(...this.lines(root).map((text) => element("div", "", text)));
  }

  lines(root) {
    if (!this.tracker.currentWidget) return ["Open a notebook to see tables."];
    if (!root) return ["This notebook has no kernel yet."];
    if (root.asking) return ["Waiting for the kernel …"];
    if (root.problem) return root.problem;
    const { known, kept } = count(root, this.filter.value);
    const text = (number) => number.toLocaleString("en");
    const tables = `${kept === known ? "" : `${text(kept)} of `}${text(known)} tables`;
    const isPart = this.filter.value && known > MAX_SEARCHED;
    const reading = this.state().reading && "reading columns …";
    const note = reading || (isPart && "columns of opened tables only");
    return [[tables, note].filter(Boolean).join(" · "), this.said].filter(Boolean);
  }
}

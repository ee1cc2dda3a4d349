// A tree of any size: the page contains only the rows in view. Text is added only as text nodes.
//
// The focus stays on the tree (aria-activedescendant): arrows, Home, End and Page keys move the
// active row, → opens it, ← closes it or moves up, and Space opens or closes it. Enter runs a row's
// first action, and the first letter of each action is its key.

const ROW = 24; // pixels, as in style.css
const MARGIN = 10; // rows above and below those in view

export class Tree {
  // `onToggle(node)` opens or closes a node; `onUse(node, use)` handles Enter, a letter, a double
  // click or a button.
  constructor({ label, hint, onToggle, onUse }) {
    Object.assign(this, { onToggle, onUse, rows: [], active: null });
    this.space = element("div", "odpsNb-space");
    this.space.setAttribute("role", "presentation");
    this.node = element("div", "odpsNb-tree");
    this.node.setAttribute("role", "tree");
    this.node.setAttribute("aria-label", label);
    this.node.setAttribute("aria-description", hint);
    this.node.tabIndex = 0;
    this.node.append(this.space);
    this.uses = element("div", "odpsNb-uses"); // buttons of the active row
    this.uses.setAttribute("role", "toolbar");
    this.uses.setAttribute("aria-label", "Actions of the selected row");
    this.node.addEventListener("scroll", () => this.draw());
    this.node.addEventListener("keydown", (event) => this.#key(event));
    this.node.addEventListener("click", (event) => this.#click(event));
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  // Rows are {node, level, position, size, name, detail, title, open, busy, isNote, uses}.
  show(rows) {
    this.rows = rows;
    if (!rows.some((row) => row.node === this.active)) this.active = rows[0]?.node ?? null;
    this.space.style.height = `${rows.length * ROW}px`;
    this.draw();
  }

  draw() {
    const { scrollTop, clientHeight } = this.node;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - MARGIN);
    const last = Math.ceil((scrollTop + clientHeight) / ROW) + MARGIN;
    const wanted = this.rows.slice(first, last).map((row, n) => this.#row(row, first + n));
    this.space.replaceChildren(...wanted);
    const at = this.#index();
    const isDrawn = at >= first && at < last;
    if (isDrawn) this.node.setAttribute("aria-activedescendant", `odpsNb-row-${at}`);
    else this.node.removeAttribute("aria-activedescendant");
    this.#drawUses(this.rows[at]?.uses ?? []);
  }

  #drawUses(uses) {
    if (this.uses.dataset.drawn === uses.join()) return; // a button keeps its focus
    this.uses.dataset.drawn = uses.join();
    const buttons = uses.map((use) => {
      const button = element("button", "odpsNb-use", use);
      button.title = `${use} (${keyOf(use)})`;
      button.addEventListener("click", () => this.onUse(this.active, use));
      return button;
    });
    this.uses.replaceChildren(...buttons);
  }

  #row(row, index) {
    const node = element("div", "odpsNb-row");
    node.id = `odpsNb-row-${index}`;
    node.dataset.index = index;
    node.style.top = `${index * ROW}px`;
    node.style.paddingInlineStart = `${row.level * 14 - 8}px`;
    node.title = row.title ?? row.name;
    const facts = { level: row.level, posinset: row.position, setsize: row.size };
    facts.selected = row.node === this.active;
    if (row.open !== undefined) facts.expanded = row.open;
    if (row.busy) facts.busy = true;
    node.setAttribute("role", "treeitem");
    node.setAttribute("aria-label", [row.name, row.detail].filter(Boolean).join(" "));
    for (const [name, value] of Object.entries(facts)) node.setAttribute(`aria-${name}`, value);
    node.classList.toggle("odpsNb-note", Boolean(row.isNote));
    const twist = element("span", "odpsNb-twist", twistOf(row));
    twist.setAttribute("aria-hidden", "true");
    node.append(twist, element("span", "odpsNb-name", row.name));
    if (row.detail) node.append(element("span", "odpsNb-detail", row.detail));
    if (row.uses) node.setAttribute("aria-keyshortcuts", row.uses.map(keyOf).join(" "));
    return node;
  }

  #click(event) {
    const found = event.target.closest(".odpsNb-row");
    const row = this.rows[found?.dataset.index];
    if (!row) return;
    this.active = row.node;
    // not "dblclick": its target may be gone after the first click
    const isDouble = event.detail === 2 && row.open === undefined;
    if (isDouble && row.uses) this.onUse(row.node, row.uses[0]);
    else if (row.open !== undefined) this.onToggle(row.node);
    else this.draw();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.#index();
    const row = this.rows[at];
    const page = Math.max(1, Math.floor(this.node.clientHeight / ROW) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    moves.Home = -this.rows.length;
    moves.End = this.rows.length;
    if (!row) return;
    const use = row.uses?.find((one) => keyOf(one) === event.key.toUpperCase());
    if (event.key in moves) this.#go(at + moves[event.key]);
    else if (event.key === "ArrowRight" && row.open === false) this.onToggle(row.node);
    else if (event.key === "ArrowRight" && this.rows[at + 1]?.level > row.level) this.#go(at + 1);
    else if (event.key === "ArrowLeft" && row.open) this.onToggle(row.node);
    else if (event.key === "ArrowLeft") this.#go(this.#parent(at));
    else if (event.key === " " && row.open !== undefined) this.onToggle(row.node);
    else if (event.key === "Enter" && row.uses) this.onUse(row.node, row.uses[0]);
    else if (event.key === "Enter" && row.open !== undefined) this.onToggle(row.node);
    else if (use) this.onUse(row.node, use);
    else if (!["ArrowRight", "Enter", " "].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  #go(index) {
    const at = Math.min(Math.max(index, 0), this.rows.length - 1);
    this.active = this.rows[at].node;
    const { scrollTop, clientHeight } = this.node;
    if (at * ROW < scrollTop) this.node.scrollTop = at * ROW;
    if ((at + 1) * ROW > scrollTop + clientHeight) {
      this.node.scrollTop = (at + 1) * ROW - clientHeight;
    }
    this.draw();
  }

  #parent(at) {
    let above = at;
    while (above > 0 && this.rows[above].level >= this.rows[at].level) above -= 1;
    return above;
  }

  #index() {
    return this.rows.findIndex((row) => row.node === this.active);
  }
}

export function element(tag, className, text = "") {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}

function keyOf(use) {
  return use[0].toUpperCase();
}

function twistOf(row) {
  if (row.busy) return "…";
  if (row.open === undefined) return "";
  return row.open ? "▾" : "▸";
}

// The order, widths and visibility of an explorer's columns. They affect only the display, not the
// requests. Columns are identified by their number in the table.

const COLUMN_STEP = 24; // pixels by which a key press changes a width
const [NARROWEST, WIDEST] = [40, 1200];

function columnLayout({ box, redraw, jump }) {
  const id = `odps${Math.random().toString(36).slice(2)}`;
  const rules = h("style");
  box.dataset.view = id;
  let columns = [];
  let order = [];
  const hidden = new Set();
  const pinned = new Set();
  const widths = new Map();

  const all = () => [...order.filter((n) => pinned.has(n)), ...order.filter((n) => !pinned.has(n))];
  const shown = () => all().filter((n) => !hidden.has(n));
  const head = (n) => box.querySelector(`th[data-column="${n}"]`);

  function reset(found) {
    columns = found;
    order = found.map((_, n) => n);
    for (const one of [hidden, pinned, widths]) one.clear();
    list();
  }

  // Applies widths, visibility and pins as style rules, so that no cell is drawn again.
  function apply() {
    const rule = (n, text) => `[data-view="${id}"] [data-column="${n}"] { ${text} }`;
    const made = [...hidden].map((n) => rule(n, "display: none"));
    for (const [n, width] of widths)
      made.push(rule(n, `box-sizing: border-box; min-width: ${width}px; max-width: ${width}px`));
    rules.textContent = made.join("\n");
    const corner = box.querySelector(".odps-x-corner");
    let left = corner ? corner.offsetWidth : 0;
    for (const n of shown().filter((one) => pinned.has(one))) {
      const width = head(n) ? head(n).offsetWidth : 0;
      if (left + width > 0.7 * box.clientWidth) break; // leaves room for the other columns
      made.push(rule(n, `position: sticky; left: ${left}px; z-index: 1; background: var(--x-back); box-shadow: inset -1px 0 var(--x-line)`));
      left += width;
    }
    rules.textContent = made.join("\n");
    const top = box.querySelector("thead")?.offsetHeight ?? 0;
    box.style.scrollPadding = `${top}px 0 0 ${left}px`; // pinned cells must not cover a focused cell
  }

  function arrange(row) {
    const cells = new Map([...row.children].map((cell) => [cell.dataset.column, cell]));
    all().forEach((n, place) => {
      const cell = cells.get(String(n));
      cell.setAttribute("aria-colindex", place + 2); // the first column has the row numbers
      row.append(cell);
    });
  }

  function changed() {
    redraw(); // moves the focus before its cell is hidden
    apply();
    list();
  }

  function hide(n) {
    if (shown().length > 1) hidden.add(n);
    changed();
  }

  function show(n) {
    hidden.delete(n);
    changed();
  }

  function pin(n) {
    if (pinned.delete(n)) {
      order = order.filter((one) => one !== n);
      const at = order.findIndex((one) => one > n && !pinned.has(one));
      order.splice(at < 0 ? order.length : at, 0, n);
    } else pinned.add(n);
    order = all();
    changed();
  }

  function put(n, before) {
    const to = order.indexOf(before);
    order = order.filter((one) => one !== n);
    order.splice(to, 0, n);
    if (pinned.has(before)) pinned.add(n);
    else pinned.delete(n);
    changed();
  }

  function move(n, by) {
    const beside = shown()[shown().indexOf(n) + by];
    if (beside !== undefined && pinned.has(beside) === pinned.has(n)) put(n, beside);
  }

  function resize(n, width) {
    widths.set(n, Math.max(NARROWEST, Math.min(WIDEST, Math.round(width))));
    apply();
  }

  const widen = (n, by) => resize(n, head(n).offsetWidth + by * COLUMN_STEP);

  // -- by mouse: the edge of a header resizes its column, the rest moves it ----------------------

  let dragged = null;

  function dress(header, n) {
    const grip = h("span", {
      class: "odps-x-grip",
      title: "drag to resize",
      onclick: (event) => event.stopPropagation(),
      onpointerdown: (event) => {
        event.preventDefault(); // otherwise the header would be dragged
        grip.setPointerCapture(event.pointerId);
        const begin = head(n).offsetWidth - event.clientX;
        grip.onpointermove = (moved) => resize(n, begin + moved.clientX);
      },
      onlostpointercapture: () => (grip.onpointermove = null),
    });
    header.draggable = true;
    header.addEventListener("dragstart", (event) => {
      if (grip.onpointermove) return event.preventDefault();
      dragged = n;
      event.dataTransfer.setData("application/x-odps-column", String(n));
    });
    header.addEventListener("dragover", (event) => dragged !== null && event.preventDefault());
    header.addEventListener("drop", (event) => {
      event.preventDefault();
      if (dragged !== null && dragged !== n) put(dragged, n);
    });
    header.addEventListener("dragend", () => (dragged = null));
    header.append(grip);
    return header;
  }

  // -- the list of all columns -------------------------------------------------------------------

  const search = h("input", {
    type: "search",
    placeholder: "Find a column",
    "aria-label": "find a column",
    oninput: list,
  });
  const rows = h("div", { class: "odps-x-columns" });
  const every = h("button", { onclick: () => (hidden.clear(), changed()) }, "Show all");
  const help = h("div", { class: "odps-x-muted" }, "Enter: go to the column · Space: hide or show it");
  const panel = h(
    "div",
    { class: "odps-x-panel odps-x-beside", role: "dialog", "aria-label": "columns", hidden: true, onkeydown: keys },
    h("div", { class: "odps-x-bar" }, search, every),
    rows,
    help
  );
  const open = h("button", { class: "odps-x-open", "aria-expanded": "false", onclick: toggle }, "Columns");

  function list() {
    open.textContent = hidden.size ? `Columns (${hidden.size} hidden)` : "Columns";
    every.disabled = !hidden.size;
    if (panel.hidden) return;
    const focused = focusNear(rows);
    const at = rows.contains(focused) ? focused.dataset.list : null;
    const text = search.value.toLowerCase();
    const found = all().filter((n) => columns[n].name.toLowerCase().includes(text));
    rows.replaceChildren(...found.map(item));
    if (at) rows.querySelector(`[data-list="${at}"]`)?.focus();
  }

  function item(n) {
    const { name, type } = columns[n];
    const check = h("input", {
      type: "checkbox",
      "aria-label": `show ${name}`,
      "data-list": n,
      onchange: () => (check.checked ? show(n) : hide(n)),
    });
    check.checked = !hidden.has(n);
    const go = () => (hidden.delete(n), changed(), jump(n));
    const kind = h("span", { class: "odps-x-muted" }, type);
    return h("div", {}, check, h("button", { tabindex: -1, onclick: go }, h("bdi", {}, name), kind));
  }

  function toggle() {
    panel.hidden = !panel.hidden;
    open.setAttribute("aria-expanded", String(!panel.hidden));
    list();
    (panel.hidden ? open : search).focus();
  }

  const close = () => panel.hidden || toggle();

  function keys(event) {
    const boxes = [...rows.querySelectorAll("input")];
    const at = boxes.indexOf(event.target);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.isComposing) return;
    if (event.key === "Escape") toggle();
    else if (step) (boxes[at + step] || search).focus();
    else if (event.key === "Enter" && event.target.tagName === "INPUT")
      boxes[Math.max(0, at)]?.parentNode.querySelector("button").click();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  const sizes = new ResizeObserver(apply);
  sizes.observe(box);
  return {
    ...{ rules, open, close, panel, reset, apply, arrange, dress, shown, hide, pin, move, widen },
    isPinned: (n) => pinned.has(n),
    end: () => sizes.disconnect(),
  };
}

// The grid of an explorer: cells, selection, keys, menu and clipboard. Cells have the attributes
// `data-row` (-2: names, -1: profiles, 0…: rows of the page) and `data-column` (number in the table).

const FOLD = 80;
const GRID_KEYS = [
  ["arrows, Home, End", "move; with Ctrl to the first or last row"],
  ["Page Down, Page Up", "move by a screen, then to the next or previous page"],
  ["Enter", "header: sort, with Shift by several columns; profile: open; cell: show the full value"],
  ["Shift + arrows, Shift + click", "select cells"],
  ["Ctrl or Cmd + C", "copy the selected cells, to paste in a spreadsheet"],
  ["Shift + F10, right click", "menu of the cell or column"],
  ["Alt + ←, →", "make the column narrower or wider"],
  ["Alt + Shift + ←, →", "move the column"],
  ["Escape", "close a panel or the menu"],
  ["?", "show these keys"],
];

// Adds thousands separators to a number; leaves other text unchanged.
const separated = (text) =>
  /^-?\d+(\.\d+)?$/.test(text) ? text.replace(/\d+/, (whole) => whole.replace(/\B(?=(...)+$)/g, ",")) : text;

// The text as a spreadsheet cell: quoted if it contains tabs or line breaks.
const quoted = (text) => (/[\t\r\n]|^"/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const tsv = (rows) => rows.map((row) => row.map((text) => quoted(text ?? "")).join("\t")).join("\n");

// `view` has the explorer's functions: send, header, summary, go, canTurn, sort, order, openColumn,
// openCell, showKeys and tell.
function gridPanel(view) {
  const box = h("div", { class: "odps-x-box" });
  const columns = columnLayout({ box, redraw, jump });
  let table = null;
  let page = null;
  let grid = null;
  let focus = { row: 0, column: 0 };
  let anchor = focus; // the other corner of the selection
  let pressed = false; // whether the mouse button is down, after a press in a cell
  let copying = null; // the range whose texts were requested from the kernel
  let waiting = [];

  const at = (row, column) => grid.querySelector(`[data-row="${row}"][data-column="${column}"]`);
  const placeOf = (cell) => ({ row: Number(cell.dataset.row), column: Number(cell.dataset.column) });
  const hasFocus = () => grid !== null && grid.contains(focusNear(grid));

  // -- drawing --------------------------------------------------------------------------------

  const visible = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      visible.unobserve(entry.target);
      waiting.push(Object.values(placeOf(entry.target)));
    }
    while (waiting.length) view.send({ do: "blobs", start: page.start, cells: waiting.splice(0, 24) });
  });

  function cellOf(value, column, row, n) {
    const cell = h("td", {
      role: "gridcell",
      tabindex: -1,
      dir: "auto",
      class: column.number ? "odps-x-number" : null,
      "data-row": row,
      "data-column": n,
    });
    if (value === null) {
      cell.append(h("em", { class: "odps-x-null" }, "null"));
      return cell;
    }
    if (column.blob) {
      cell.append(h("span", { class: "odps-x-muted" }, "blob"));
      cell.classList.add("odps-x-blob");
      visible.observe(cell);
    } else {
      const cut = Array.isArray(value);
      const text = cut ? value[0] : value;
      const folds = cut || text.length > FOLD || column.nested || text.includes("\n");
      const shown = column.separated ? separated(text) : text;
      cell.textContent = folds && text.length > FOLD ? text.slice(0, FOLD) + "…" : shown;
      if (cut && text.length <= FOLD) cell.textContent += "…";
      if (!folds) return cell;
    }
    cell.classList.add("odps-x-folds");
    cell.title = "click or press Enter to show the full value";
    cell.addEventListener("click", (event) => event.shiftKey || view.openCell(row, n));
    return cell;
  }

  const corner = (row) => h("td", { class: row ? null : "odps-x-corner", "aria-colindex": 1 });
  const numberOf = (row) =>
    h("th", { scope: "row", role: "rowheader", "aria-colindex": 1 }, count(page.start + row + 1));

  function headers() {
    return table.columns.map((one, n) => columns.dress(view.header(one, n), n));
  }

  function setTable(message) {
    table = message;
    grid = null;
    columns.reset(table.columns);
  }

  function show(shown, wanted) {
    page = shown;
    visible.disconnect();
    waiting = [];
    const moves = hasFocus() || wanted !== null;
    const names = h("tr", { role: "row" }, corner(0), ...headers());
    const profiles = h("tr", { role: "row" }, corner(1), ...table.columns.map(view.summary));
    const body = h("tbody", { role: "rowgroup" });
    for (let row = 0; row < page.count; row++) {
      const cells = table.columns.map((one, n) => cellOf(page.cells[n][row], one, row, n));
      const about = { role: "row", "aria-rowindex": page.start + row + 3 };
      body.append(h("tr", about, numberOf(row), ...cells));
    }
    grid = h(
      "table",
      {
        role: "grid",
        "aria-label": `rows of ${table.title}`,
        "aria-colcount": table.all_columns + 1,
        "aria-multiselectable": "true",
        onkeydown: keys,
        onfocusin: (event) => remember(event.target),
        onmousedown: press,
        onmouseover: drag,
        oncontextmenu: rightClick,
      },
      h("thead", { role: "rowgroup" }, names, profiles),
      body
    );
    setTotal(page.total);
    for (const row of grid.rows) columns.arrange(row);
    box.replaceChildren(grid);
    const none = page.search ? `no rows: searched ${many(page.searched || 0, "row")}` : "no rows";
    if (!page.count) box.append(h("div", { class: "odps-x-muted odps-x-none" }, none));
    columns.apply();
    if (wanted && wanted.absolute) focus.row = wanted.row - page.start;
    else if (wanted) focus = { ...focus, ...wanted };
    anchor = focus;
    place(moves);
  }

  const setTotal = (total) => grid.setAttribute("aria-rowcount", total === null ? -1 : total + 2);

  function showProfiles() {
    if (!grid) return;
    const focused = hasFocus();
    const row = grid.tHead.rows[1];
    row.replaceChildren(corner(1), ...table.columns.map(view.summary));
    columns.arrange(row);
    columns.apply();
    place(focused);
  }

  function showBlobs(message) {
    if (!page || message.start !== page.start) return;
    for (const [row, column, src, text] of message.cells) {
      const cell = at(row, column);
      if (!cell) continue;
      const parts = [h("div", { class: "odps-x-muted" }, text)];
      if (PICTURE.test(src)) parts.unshift(h("img", { src, alt: text }));
      cell.replaceChildren(...parts);
    }
    columns.apply();
  }

  function redraw() {
    if (!grid) return;
    const focused = hasFocus();
    for (const row of grid.rows) columns.arrange(row);
    if (!columns.shown().includes(focus.column)) focus = { ...focus, column: columns.shown()[0] };
    anchor = focus;
    place(focused);
  }

  // -- focus and selection --------------------------------------------------------------------

  function remember(target) {
    const cell = target.closest("[data-row]");
    if (!cell) return;
    for (const old of grid.querySelectorAll('[tabindex="0"]')) old.tabIndex = -1;
    cell.tabIndex = 0;
    const { row, column } = placeOf(cell);
    if (row === focus.row && column === focus.column) return;
    focus = anchor = { row, column };
    mark();
  }

  function place(moves) {
    if (!grid) return;
    focus.row = Math.max(-2, Math.min(focus.row, page.count - 1));
    const cell = at(focus.row, focus.column) || at(-2, columns.shown()[0]);
    if (!cell) return;
    for (const old of grid.querySelectorAll('[tabindex="0"]')) old.tabIndex = -1;
    cell.tabIndex = 0;
    if (moves) cell.focus();
    mark();
  }

  function jump(column) {
    if (!grid) return;
    focus = anchor = { row: Math.max(focus.row, -2), column };
    place(true);
    at(focus.row, column).scrollIntoView({ block: "nearest", inline: "center" });
  }

  function range() {
    const shown = columns.shown();
    const [from, to] = [shown.indexOf(anchor.column), shown.indexOf(focus.column)];
    const [top, end] = [Math.min(anchor.row, focus.row), Math.max(anchor.row, focus.row)];
    const chosen = shown.slice(Math.min(from, to), Math.max(from, to) + 1);
    return { start: Math.max(0, top), count: end + 1 - Math.max(0, top), columns: chosen };
  }

  function mark() {
    for (const old of grid.querySelectorAll("[aria-selected]")) old.removeAttribute("aria-selected");
    const { start, count: rows, columns: chosen } = range();
    if (rows * chosen.length < 2) return;
    for (let row = start; row < start + rows; row++)
      for (const n of chosen) at(row, n)?.setAttribute("aria-selected", "true");
  }

  function press(event) {
    const cell = event.target.closest("td[data-row]");
    if (!cell) return;
    if (event.button) {
      if (cell.hasAttribute("aria-selected")) event.preventDefault(); // keeps the selection
      return;
    }
    pressed = true;
    addEventListener("mouseup", () => (pressed = false), { once: true, capture: true });
    focus = placeOf(cell);
    if (event.shiftKey) {
      event.preventDefault(); // prevents text selection
      place(true);
    } else {
      anchor = focus;
      mark();
    }
  }

  function drag(event) {
    const cell = event.target.closest("td[data-row]");
    if (!pressed || !(event.buttons & 1) || !cell || cell.dataset.row < 0 || anchor.row < 0) return;
    if (cell === at(focus.row, focus.column)) return;
    getSelection().removeAllRanges();
    focus = placeOf(cell);
    place(true);
  }

  // -- clipboard ------------------------------------------------------------------------------

  function copy() {
    const wanted = range();
    if (wanted.count < 1) return;
    const rows = [];
    let exact = true;
    for (let row = wanted.start; row < wanted.start + wanted.count; row++) {
      const cells = wanted.columns.map((n) => page.cells[n][row]);
      rows.push(cells);
      // the text is truncated, or may contain escaped characters
      if (cells.some((one) => Array.isArray(one) || (one !== null && one.includes("\\")))) exact = false;
    }
    if (exact) return put(rows, 0);
    copying = wanted;
    view.tell("copying …");
    view.send({ ...wanted, do: "copy", start: page.start + wanted.start });
  }

  function copied(message) {
    if (!copying) return;
    const rows = message.cells[0].map((_, row) => message.cells.map((cells) => cells[row]));
    copying = null;
    put(rows, message.cut);
  }

  async function put(rows, cut) {
    await copyText(tsv(rows));
    const cells = rows.length * rows[0].length;
    view.tell(`copied ${many(cells, "cell")}${cut ? `; ${many(cut, "value")} truncated` : ""}`);
  }

  // -- menu -----------------------------------------------------------------------------------

  const menu = h("div", { class: "odps-x-menu", role: "menu", popover: "auto", onkeydown: menuKeys });

  function openMenu(cell, x, y) {
    const { row, column: n } = placeOf(cell);
    const value = (not) => () => view.value({ row: page.start + row, column: n, not });
    const items = [];
    if (row >= 0) {
      items.push(["Copy", copy], ["Filter by this value", value(false)], ["Exclude this value", value(true)]);
      if (table.columns[n].blob || table.columns[n].nested) items.length = 1;
    }
    items.push(["Sort ascending", () => view.order(n, false)], ["Sort descending", () => view.order(n, true)]);
    items.push(["Hide column", () => columns.hide(n)]);
    items.push([columns.isPinned(n) ? "Unpin column" : "Pin column", () => columns.pin(n)]);
    items.push(["Move left", () => columns.move(n, -1)], ["Move right", () => columns.move(n, 1)]);
    items.push(["Narrower", () => columns.widen(n, -1)], ["Wider", () => columns.widen(n, 1)]);
    const button = ([text, act]) => h("button", { role: "menuitem", onclick: () => (closeMenu(), act()) }, text);
    menu.replaceChildren(...items.map(button));
    menu.showPopover();
    menu.style.left = `${Math.min(x, innerWidth - menu.offsetWidth)}px`;
    menu.style.top = `${Math.min(y, innerHeight - menu.offsetHeight)}px`;
    menu.firstChild.focus();
  }

  function closeMenu() {
    menu.hidePopover();
    place(true);
  }

  function menuKeys(event) {
    const items = [...menu.children];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) items.at((items.indexOf(focusNear(menu)) + step) % items.length).focus();
    else if (["Escape", "Tab"].includes(event.key)) closeMenu();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function rightClick(event) {
    const cell = event.target.closest("[data-row]");
    if (!cell || (event.shiftKey && event.button === 2)) return; // Shift: the browser's menu
    event.preventDefault();
    event.stopPropagation();
    if (!cell.hasAttribute("aria-selected")) cell.focus();
    openMenu(cell, event.clientX, event.clientY);
  }

  // -- keys -----------------------------------------------------------------------------------

  // Handles the keys that do not move the focus; returns whether the key was one of them.
  function act(event) {
    const { row, column } = focus;
    const cell = at(row, column);
    const aside = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const chosen = getSelection();
    const isText = chosen.toString() && grid.contains(chosen.anchorNode) && !table.columns[column].number;
    if (event.key === "Enter" || event.key === " ") {
      if (row === -2) view.sort(column, event);
      else if (row === -1) view.openColumn(column);
      else if (cell.classList.contains("odps-x-folds")) view.openCell(row, column);
    } else if (event.key === "?") view.showKeys();
    else if (event.altKey && aside) (event.shiftKey ? columns.move : columns.widen)(column, aside);
    else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
      const { left, bottom } = cell.getBoundingClientRect();
      openMenu(cell, left, bottom);
    } else if (event.key.toLowerCase() === "c" && (event.ctrlKey || event.metaKey) && !isText) copy();
    else return false;
    return true;
  }

  function target(event) {
    const step = Math.max(1, Math.floor(box.clientHeight / 26) - 3);
    const shown = columns.shown();
    const [most, end] = [page.count - 1, shown.length - 1];
    const whole = event.ctrlKey || event.metaKey;
    let row = focus.row;
    let column = Math.max(0, shown.indexOf(focus.column));
    if (event.key === "ArrowDown") row += 1;
    else if (event.key === "ArrowUp") row -= 1;
    else if (event.key === "ArrowRight") column += 1;
    else if (event.key === "ArrowLeft") column -= 1;
    else if (event.key === "PageDown") row = row === most ? row + 1 : Math.min(most, row + step);
    else if (event.key === "PageUp") row = row <= 0 ? row - 1 : Math.max(0, row - step);
    else if (event.key === "Home") [row, column] = whole ? [-2, 0] : [row, 0];
    else if (event.key === "End") [row, column] = [whole ? most : row, end];
    else return null;
    return { row, column: shown[Math.max(0, Math.min(column, end))] };
  }

  function keys(event) {
    const to = act(event) ? focus : target(event);
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    if (to === focus) return;
    const most = page.count - 1;
    const grows = event.shiftKey && focus.row >= 0;
    if (!grows) {
      if (to.row > most && view.canTurn()) return view.go(page.start + table.page_rows, { row: 0 });
      if (to.row < 0 && event.key === "PageUp" && page.start > 0)
        return view.go(page.start - table.page_rows, { row: table.page_rows - 1 });
    }
    focus = { ...to, row: Math.max(grows ? 0 : -2, Math.min(to.row, most)) };
    if (!grows) anchor = focus;
    place(true);
  }

  return {
    ...{ box, menu, columns, setTable, show, setTotal, showProfiles, showBlobs, copied, place },
    column: () => focus.column,
    end: () => (visible.disconnect(), columns.end()),
  };
}

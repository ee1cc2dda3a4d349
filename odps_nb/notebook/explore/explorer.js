// Browser side of the explorer (explorer.py). Pages arrive as messages; see live/common.js.

const SVG = "http://www.w3.org/2000/svg";
const FOLD = 80;

const share = (n, of) => (of ? `${((100 * n) / of).toPrecision(2)} %` : "");

// The panel that asks for a chart of the selected rows and shows it.
function chartPanel(send) {
  const choice = (label, ...options) => {
    const select = h("select", { "aria-label": label }, ...options.map((one) => h("option", {}, one)));
    return [h("label", {}, label, " ", select), select];
  };
  const [xLabel, x] = choice("x");
  const [yLabel, y] = choice("y");
  const [aggLabel, agg] = choice("aggregate", "sum", "mean", "median", "min", "max", "count", "distinct");
  const [kindLabel, kind] = choice(
    "kind", "automatic", "bar", "line", "area", "histogram", "box", "scatter"
  );
  const [colorLabel, color] = choice("color");
  const [stepLabel, step] = choice("step", "automatic", "hour", "day", "week", "month", "year");
  const draw = h("button", { onclick: () => ask(false) }, "Draw");
  const copy = h("button", { hidden: true, onclick: copyCode }, "Copy code");
  const note = h("div", { class: "odps-x-muted", "aria-live": "polite" });
  const picture = h("div", { class: "odps-x-chart" });
  const bar = h("div", { class: "odps-x-bar" }, xLabel, yLabel, aggLabel, colorLabel, kindLabel);
  bar.append(stepLabel, draw, copy);
  const panel = h("div", { class: "odps-x-panel odps-x-charts", hidden: true }, bar, note, picture);
  let columns = [];
  let filtered = "";
  let code = "";

  const named = (select) => columns.find((one) => one.name === select.value);
  const isGrouped = () => !["box", "scatter"].includes(kind.value);
  function adapt() {
    aggLabel.hidden = !y.value || !isGrouped();
    stepLabel.hidden = !(named(x) && named(x).time) || kind.value === "scatter";
  }
  for (const one of [x, y, kind]) one.addEventListener("change", adapt);

  function setColumns(found) {
    columns = found;
    const fill = (select, first, fits) => {
      const names = columns.filter(fits).map((one) => h("option", { value: one.name }, one.name));
      select.replaceChildren(...(first ? [h("option", { value: "" }, first)] : []), ...names);
    };
    fill(x, "", (one) => one.axis);
    fill(y, "number of rows", (one) => one.number || (one.axis && !one.time));
    fill(color, "none", (one) => one.axis && !one.number);
    adapt();
  }

  function ask(agreed) {
    note.textContent = "";
    const message = { do: "chart", x: x.value, y: y.value, color: color.value, agreed };
    if (kind.value !== "automatic") message.kind = kind.value;
    if (step.value !== "automatic" && !stepLabel.hidden) message.step = step.value;
    if (!aggLabel.hidden) message.agg = agg.value;
    send(message);
  }

  async function copyCode() {
    await copyText(code);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy code"), 1500);
  }

  function show(message) {
    code = message.code;
    copy.hidden = false;
    note.textContent = `${message.title} · ${message.note}${filtered}`;
    picture.replaceChildren(svgPicture(message.svg));
  }

  function askCost(message) {
    note.replaceChildren(...costQuestion("This chart", message.text, "Draw anyway", () => ask(true)));
  }

  return { panel, setColumns, show, ask: askCost, setFilter: (text) => (filtered = text) };
}

function render({ model, el }) {
  let silence = 0;
  const send = (message) => {
    clearTimeout(silence);
    silence = setTimeout(() => (problem.textContent = NO_ANSWER), 10000);
    model.send(message);
  };
  let table = null;
  let page = null;
  let profile = null;
  let grid = null;
  let focus = { row: 0, column: 0 }; // row -2: names, -1: profiles, 0…: cells
  let wanted = null; // the cell to focus when the page arrives
  let back = null; // the element focused before the panel opened
  let waiting = [];
  let timer = 0;

  const title = h("b");
  const facts = h("span", { class: "odps-x-muted" });
  const described = h("span", { class: "odps-x-muted odps-x-described" });
  const search = h("input", {
    type: "search",
    title: "finds a text in what the cells show, ignoring case; not in blobs",
    maxlength: 200,
    onkeydown: (event) => {
      if (event.key === "Enter") find();
    },
    onsearch: find,
  });
  const all = h(
    "button",
    { class: "odps-x-all", title: "reads the whole table", onclick: () => send({ do: "profile" }) },
    "Profile all rows"
  );
  const charts = chartPanel(send);
  const chart = h(
    "button",
    { class: "odps-x-open", "aria-expanded": "false", title: "computed by the service", onclick: openChart },
    "Chart"
  );
  const builder = filterForm(
    (message) => (wait("filtering"), send(message)),
    () => filterButton.focus()
  );
  const filterButton = h(
    "button",
    { class: "odps-x-open", onclick: () => builder.open(Math.max(0, focus.column)) },
    "Filter"
  );
  const chips = filterChips(
    (edited, index) => builder.open(edited.column, edited, index),
    (index) => (wait("filtering"), send({ do: "unfilter", index }))
  );
  const busy = busyLine(send);
  const problem = h("div", { class: "odps-x-problem", role: "alert" });
  const box = h("div", { class: "odps-x-box" });
  const where = h("span", { role: "status", "aria-live": "polite" });
  const turn = (label, text, to) =>
    h("button", { "aria-label": label, title: label, onclick: () => go(to()) }, text);
  const first = turn("first page", "«", () => 0);
  const before = turn("previous page", "‹ Back", () => page.start - table.page_rows);
  const next = turn("next page", "Next ›", () => page.start + table.page_rows);
  const last = turn("last page", "»", () => page.total - 1);
  const jump = h("input", {
    type: "text",
    inputmode: "numeric",
    size: 9,
    "aria-label": "go to row",
    placeholder: "go to row",
    onkeydown: (event) => {
      const row = Number(jump.value.replace(/[^0-9]/g, ""));
      if (event.key === "Enter" && row > 0) go(row - 1, { row: row - 1, absolute: true });
    },
  });
  const code = h("code");
  const copy = h("button", { onclick: copyCode }, "Copy");
  const panel = h("div", { class: "odps-x-panel", role: "dialog", hidden: true });
  const root = h(
    "div",
    { class: "odps-x", role: "group", onfocusin: ownKeys },
    h("div", { class: "odps-x-bar" }, h("div", {}, title, facts, described), search, filterButton, chart, all),
    chips.box,
    busy.line,
    problem,
    builder.form,
    charts.panel,
    box,
    h("div", { class: "odps-x-bar" }, first, before, where, next, last, jump),
    panel,
    h("div", { class: "odps-x-bar odps-x-code" }, code, copy)
  );
  el.append(hidesTwin(model), root);

  // -- requests -------------------------------------------------------------------------------

  function go(start, then = null) {
    wanted = then;
    wait("reading");
    send({ do: "page", start: Math.max(0, start) });
  }

  const orders = sorting(send, (text) => (problem.textContent = text));

  function sort(column, event) {
    if (page && orders.click(page, table.columns, column, event)) {
      wait("sorting with a SQL job on the service");
    }
  }

  function askCost(message) {
    const run = () => (wait("sorting"), send({ do: "agree" }));
    problem.replaceChildren(...costQuestion("This sort", message.text, "Sort anyway", run));
  }

  function find() {
    if (!page || search.value.trim() === page.search) return;
    wait("searching");
    send({ do: "search", text: search.value });
  }

  function filter(column, bar, exclude = false) {
    const label = bar < 0 ? null : profile.columns[column].bars[bar][0];
    closePanel();
    wait("filtering");
    send({ do: "bar", column, bar, label, exclude });
  }

  function wait(text) {
    problem.textContent = "";
    box.setAttribute("aria-busy", "true");
    clearTimeout(timer);
    timer = setTimeout(() => busy.show({ task: "page", text, share: null }), 300);
  }

  async function copyCode() {
    await copyText(code.textContent);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  }

  function openChart() {
    charts.panel.hidden = !charts.panel.hidden;
    chart.setAttribute("aria-expanded", String(!charts.panel.hidden));
    if (!charts.panel.hidden) charts.panel.querySelector("select").focus();
  }

  // -- showing --------------------------------------------------------------------------------

  function endBusy(task) {
    if (task === "page") {
      clearTimeout(timer);
      box.removeAttribute("aria-busy");
    }
    busy.end(task);
  }

  function showProblem(message) {
    endBusy(message.task);
    builder.failed();
    problem.textContent = message.text;
  }

  function showTable(message) {
    table = message;
    title.textContent = table.title;
    root.setAttribute("aria-label", `rows of ${table.title}`);
    grid = null;
    builder.setColumns(table.columns);
    charts.setColumns(table.columns);
    const all = table.columns.length === table.all_columns;
    search.placeholder = `Search in ${all ? "all" : `the first ${table.columns.length}`} columns`;
    search.setAttribute("aria-label", `${search.placeholder.toLowerCase()}, ignoring case`);
    wait("reading");
  }

  function header(column, n) {
    const order = orders.mark(page.order, n);
    return h(
      "th",
      {
        scope: "col",
        role: "columnheader",
        "aria-sort": order.state,
        tabindex: -1,
        class: `${column.number ? "odps-x-number" : ""}${column.sortable ? " odps-x-sorts" : ""}`,
        title: `${column.comment ? column.comment + "\n" : ""}${orders.hint(column)}`,
        "data-row": -2,
        "data-column": n,
        onclick: (event) => sort(n, event),
      },
      h("div", { class: "odps-x-name" }, h("bdi", {}, column.name), order.text),
      h("div", { class: "odps-x-muted" }, column.type)
    );
  }

  function summary(column, n) {
    const cell = h("td", {
      role: "gridcell",
      tabindex: -1,
      class: `odps-x-profile${column.number ? " odps-x-number" : ""}`,
      "data-row": -1,
      "data-column": n,
      onclick: () => openColumn(n),
    });
    const found = profile && profile.columns[n];
    if (!found) {
      cell.append(h("span", { class: "odps-x-muted" }, "…"));
      return cell;
    }
    const most = Math.max(1, ...found.bars.map((bar) => bar[1]));
    const drawn = document.createElementNS(SVG, "svg");
    const width = 6;
    drawn.setAttribute("width", Math.max(1, found.bars.length) * width);
    drawn.setAttribute("height", 28);
    drawn.setAttribute("aria-hidden", "true");
    found.bars.forEach(([label, rows], place) => {
      const bar = document.createElementNS(SVG, "rect");
      const high = rows ? Math.max(1, Math.round((26 * rows) / most)) : 0;
      const space = document.createElementNS(SVG, "rect"); // makes the space above the bar clickable
      for (const [one, y, tall, kind] of [
        [space, 0, 28, "space"],
        [bar, 28 - high, high, "count"],
      ]) {
        one.setAttribute("x", place * width);
        one.setAttribute("y", y);
        one.setAttribute("width", width - 1);
        one.setAttribute("height", tall);
        one.setAttribute("class", `odps-x-${kind}`);
      }
      const both = document.createElementNS(SVG, "g");
      const tip = document.createElementNS(SVG, "title");
      tip.textContent = `${label}: ${many(rows, "row")}`;
      both.append(tip, space, bar);
      both.addEventListener("click", (event) => {
        event.stopPropagation();
        filter(n, place, event.shiftKey);
      });
      drawn.append(both);
    });
    if (found.bars.length) cell.append(drawn);
    const [top] = found.bars;
    const onLine = found.is_range || column.number;
    const ends = h("div", { class: "odps-x-ends" });
    if (onLine && found.least) ends.append(`${found.least} – ${found.greatest}`);
    else if (top) ends.append(h("bdi", {}, top[0]), ` ${share(top[1], found.rows)}`);
    else ends.append("\u00a0");
    cell.append(ends);
    cell.append(h("div", { class: "odps-x-muted" }, found.words || "\u00a0"));
    cell.setAttribute("aria-label", `profile of ${column.name}: ${spoken(found)}`);
    cell.title = `${spoken(found)}\n${profile.label}`;
    return cell;
  }

  function spoken(found) {
    const ends = found.least || found.greatest ? `${found.least} to ${found.greatest}` : "";
    return [found.words, ends].filter(Boolean).join(", ");
  }

  const visible = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        visible.unobserve(entry.target);
        waiting.push([Number(entry.target.dataset.row), Number(entry.target.dataset.column)]);
      }
      while (waiting.length) {
        send({ do: "blobs", start: page.start, cells: waiting.splice(0, 24) });
      }
    },
    { root: null }
  );

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
      cell.textContent = folds && text.length > FOLD ? text.slice(0, FOLD) + "…" : text;
      if (cut && text.length <= FOLD) cell.textContent += "…";
      if (!folds) return cell;
    }
    cell.classList.add("odps-x-folds");
    cell.title = "click or press Enter to show the full value";
    cell.addEventListener("click", () => openCell(row, n));
    return cell;
  }

  function showPage(message, buffer) {
    const text = new TextDecoder().decode(buffer);
    page = { ...message, cells: JSON.parse(text) };
    visible.disconnect();
    waiting = [];
    const hadFocus = grid !== null && grid.contains(document.activeElement);
    const names = h("tr", { role: "row" }, ...table.columns.map(header));
    const profiles = h("tr", { role: "row" }, ...table.columns.map(summary));
    const body = h("tbody", { role: "rowgroup" });
    for (let row = 0; row < page.count; row++) {
      const cells = table.columns.map((one, n) => cellOf(page.cells[n][row], one, row, n));
      body.append(h("tr", { role: "row", "aria-rowindex": page.start + row + 3 }, ...cells));
    }
    const made = h(
      "table",
      {
        role: "grid",
        "aria-label": `rows of ${table.title}`,
        "aria-rowcount": page.total === null ? -1 : page.total + 2,
        "aria-colcount": table.all_columns,
        onkeydown: keys,
        onfocusin: (event) => remember(event.target),
      },
      h("thead", { role: "rowgroup" }, names, profiles),
      body
    );
    grid = made;
    box.replaceChildren(made);
    if (!page.count) {
      const some = page.search ? `no rows: searched ${many(page.searched || 0, "row")}` : "no rows";
      box.append(h("div", { class: "odps-x-muted odps-x-none" }, some));
    }
    showAround();
    if (wanted && wanted.absolute) focus.row = wanted.row - page.start;
    else if (wanted) focus = { ...focus, ...wanted };
    const moves = hadFocus || wanted !== null;
    wanted = null;
    place(moves);
  }

  function showCount({ total, rows, why = "" }) {
    page.total = total;
    facts.textContent = [rows, many(table.all_columns, "column")].map((one) => one && ` · ${one}`).join("");
    facts.title = why && `the rows were not counted: ${why}`;
    const end = page.start + page.count;
    const of = total === null ? "· more may follow" : `of ${count(total)}`;
    where.textContent = page.count ? `rows ${count(page.start + 1)}–${count(end)} ${of}` : "no rows";
    if (page.note) where.textContent += ` · ${page.note}`;
    first.disabled = before.disabled = page.start === 0;
    next.disabled = total !== null && end >= total;
    last.disabled = next.disabled || total === null;
    jump.disabled = total === null;
    grid.setAttribute("aria-rowcount", total === null ? -1 : total + 2);
  }

  function showAround() {
    showCount(page);
    root.classList.toggle("odps-x-stale", !page.profiled);
    if (!page.profiled) described.textContent = " · profile: reading the rows…";
    code.textContent = page.code;
    if (document.activeElement !== search) search.value = page.search;
    const endSearch = () => ((search.value = ""), find());
    if (chips.show(page.conditions, page.search, endSearch)) filterButton.focus();
    builder.applied();
    const filter = page.conditions.length ? " that match the filter" : "";
    charts.setFilter(filter + (page.search ? ", also those without the search text" : ""));
  }

  function showProfile(message) {
    profile = message;
    root.classList.remove("odps-x-stale");
    described.textContent = ` · profile: ${profile.label}`;
    all.hidden = profile.whole;
    if (!grid) return;
    const hadFocus = grid.contains(document.activeElement);
    const cells = table.columns.map(summary);
    grid.querySelectorAll("thead tr")[1].replaceChildren(...cells);
    place(hadFocus);
    if (!panel.hidden && panel.dataset.column) openColumn(Number(panel.dataset.column));
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
  }

  // -- panels ---------------------------------------------------------------------------------

  function openPanel(label, parts) {
    if (panel.hidden) back = document.activeElement;
    const close = h("button", { "aria-label": "close", onclick: closePanel }, "×");
    panel.setAttribute("aria-label", label);
    panel.replaceChildren(h("div", { class: "odps-x-bar" }, h("b", {}, label), close), ...parts);
    panel.hidden = false;
    (panel.querySelector("button.odps-x-row") || close).focus();
  }

  function closePanel() {
    if (panel.hidden) return;
    panel.hidden = true;
    delete panel.dataset.column;
    if (back && root.contains(back)) back.focus();
    else place(true);
  }

  function openColumn(n) {
    const column = table.columns[n];
    const found = profile && profile.columns[n];
    const kind = [column.type, column.comment].filter(Boolean).join(" · ");
    const parts = [h("div", { class: "odps-x-muted" }, kind)];
    if (!found) {
      openPanel(column.name, [...parts, h("div", {}, "no profile yet")]);
      return;
    }
    const list = h("div", { class: "odps-x-facts" });
    const over = found.more_distinct ? "over " : "";
    for (const [name, value] of [
      ["nulls", found.nulls ? `${count(found.nulls)} (${share(found.nulls, found.rows)})` : "0"],
      ["distinct", found.distinct === null ? "" : over + count(found.distinct)],
      ["least", found.least],
      ["greatest", found.greatest],
    ])
      if (value)
        list.append(h("span", {}, h("span", { class: "odps-x-muted" }, name), " ", h("bdi", {}, value)));
    parts.push(list);
    const rows = found.bars.map(([label, size], bar) => [label, size, bar]);
    if (found.nulls) rows.push(["null", found.nulls, -1]);
    const most = Math.max(1, ...rows.map((one) => one[1]));
    for (const [label, size, bar] of rows) {
      const filled = h("span", { class: "odps-x-filled" });
      filled.style.width = `${(100 * size) / most}%`;
      parts.push(
        h(
          "button",
          { class: "odps-x-row", title: "show only these rows; with Shift, all others", onclick: (event) => filter(n, bar, event.shiftKey) },
          filled,
          h("bdi", {}, label || "(empty)"),
          h("span", {}, `${count(size)} · ${share(size, found.rows)}`)
        )
      );
    }
    parts.push(h("div", { class: "odps-x-muted" }, profile.label));
    parts.push(h("button", { onclick: () => (closePanel(), builder.open(n)) }, "Filter…"));
    openPanel(column.name, parts);
    panel.dataset.column = String(n);
  }

  function openCell(row, n) {
    openPanel(`${table.columns[n].name}, row ${count(page.start + row + 1)}`, [h("pre", {}, "…")]);
    send({ do: "cell", row: page.start + row, column: n });
  }

  function showCell(message) {
    const into = panel.querySelector("pre");
    if (panel.hidden || !into) return;
    into.textContent = message.text + (message.cut ? "… (truncated)" : "");
    if (PICTURE.test(message.src)) into.before(h("img", { src: message.src, alt: message.text }));
  }

  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape") closePanel();
    const rows = [...panel.querySelectorAll("button.odps-x-row")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const now = rows.indexOf(document.activeElement);
    if (step && now >= 0 && rows[now + step]) {
      rows[now + step].focus();
      event.preventDefault();
    }
  });

  // -- the keyboard in the grid ---------------------------------------------------------------

  const at = (row, column) =>
    grid.querySelector(`[data-row="${row}"][data-column="${column}"]`);

  function remember(target) {
    const cell = target.closest("[data-row]");
    if (!cell) return;
    for (const old of grid.querySelectorAll('[tabindex="0"]')) old.tabIndex = -1;
    cell.tabIndex = 0;
    focus = { row: Number(cell.dataset.row), column: Number(cell.dataset.column) };
  }

  function place(moves) {
    focus.row = Math.max(-2, Math.min(focus.row, page.count - 1));
    const cell = at(focus.row, focus.column) || at(-2, 0);
    if (!cell) return;
    for (const old of grid.querySelectorAll('[tabindex="0"]')) old.tabIndex = -1;
    cell.tabIndex = 0;
    if (moves) cell.focus();
  }

  function keys(event) {
    const step = Math.max(1, Math.floor(box.clientHeight / 26) - 3);
    let { row, column } = focus;
    const most = page.count - 1;
    const whole = event.ctrlKey || event.metaKey;
    if (event.key === "ArrowDown") row += 1;
    else if (event.key === "ArrowUp") row -= 1;
    else if (event.key === "ArrowRight") column += 1;
    else if (event.key === "ArrowLeft") column -= 1;
    else if (event.key === "PageDown") row = row === most ? row + 1 : Math.min(most, row + step);
    else if (event.key === "PageUp") row = row <= 0 ? row - 1 : Math.max(0, row - step);
    else if (event.key === "Home") [row, column] = whole ? [-2, 0] : [row, 0];
    else if (event.key === "End") [row, column] = [whole ? most : row, table.columns.length - 1];
    else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      const cell = at(row, column);
      if (row === -2) sort(column, event);
      else if (row === -1) openColumn(column);
      else if (cell && cell.classList.contains("odps-x-folds")) openCell(row, column);
      return;
    } else return;
    event.preventDefault();
    event.stopPropagation();
    if (row > most && !next.disabled) return go(page.start + table.page_rows, { row: 0 });
    if (row < 0 && event.key === "PageUp" && page.start > 0)
      return go(page.start - table.page_rows, { row: table.page_rows - 1 });
    focus = {
      row: Math.max(-2, Math.min(row, most)),
      column: Math.max(0, Math.min(column, table.columns.length - 1)),
    };
    place(true);
  }

  // -- messages -------------------------------------------------------------------------------

  function receive(message, buffers) {
    stopSaying();
    clearTimeout(silence);
    if (problem.textContent === NO_ANSWER) problem.textContent = "";
    if (message.kind === "table") showTable(message);
    else if (message.kind === "page") showPage(message, buffers[0]);
    else if (message.kind === "profile") showProfile(message);
    else if (message.kind === "count" && grid) showCount(message);
    else if (message.kind === "blobs") showBlobs(message);
    else if (message.kind === "cell") showCell(message);
    else if (message.kind === "chart") charts.show(message);
    else if (message.kind === "cost") (message.task === "chart" ? charts.ask : askCost)(message);
    else if (message.kind === "busy") busy.show(message);
    else if (message.kind === "idle") endBusy(message.task);
    else if (message.kind === "problem") showProblem(message);
  }
  model.on("msg:custom", receive);
  const stopSaying = sayUntilHeard(() => send({ do: "ready" }));
  return () => {
    stopSaying();
    model.off("msg:custom", receive);
    visible.disconnect();
    clearTimeout(timer);
    clearTimeout(silence);
  };
}

export default { render };

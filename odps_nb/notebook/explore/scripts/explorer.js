// Browser side of the explorer (explorer.py). Pages arrive as messages; see live/common.js.


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
  const copy = h("button", { hidden: true, onclick: () => copyFrom(copy, "Copy code", code) }, "Copy code");
  const note = h("div", { class: "odps-x-muted", "aria-live": "polite" });
  const picture = h("div", { class: "odps-x-chart" });
  const bar = h("div", { class: "odps-x-bar" }, xLabel, yLabel, aggLabel, colorLabel, kindLabel);
  bar.append(stepLabel, draw, copy);
  const panel = h("div", { class: "odps-x-panel odps-x-charts", hidden: true }, bar, note, picture);
  let columns = [];
  let filtered = "";
  let [code, now, asked, of] = ["", "", "", ""]; // the last three are the conditions of a filter

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
    asked = now;
    const message = { do: "chart", x: x.value, y: y.value, color: color.value, agreed };
    message.width = width();
    if (kind.value !== "automatic") message.kind = kind.value;
    if (step.value !== "automatic" && !stepLabel.hidden) message.step = step.value;
    if (!aggLabel.hidden) message.agg = agg.value;
    send(message);
  }

  function show(message) {
    code = message.code;
    copy.hidden = false;
    note.textContent = `${message.title} · ${message.note}${filtered}`;
    resized(message);
    of = asked;
    mark();
  }

  function resized(message) {
    picture.replaceChildren(svgPicture(message.svg));
  }

  const [width, end] = widthOf(picture, () => code && send({ do: "resize", width: width() }));

  function setFilter(text, selected) {
    [filtered, now] = [text, selected];
    mark();
  }

  function mark() {
    const isOld = !!code && of !== now;
    picture.classList.toggle("odps-x-old", isOld);
    draw.textContent = isOld ? "Draw again: the filter has changed" : "Draw";
  }

  function askCost(message) {
    note.replaceChildren(...costQuestion("This chart", message.text, "Draw anyway", () => ask(true)));
  }

  return { panel, setColumns, show, resized, ask: askCost, setFilter, end };
}

function render({ model, el }) {
  const send = (message) => live.send(message);
  let table = null;
  let page = null;
  let profile = null;
  let wanted = null; // the cell to focus when the page arrives
  let back = null; // the element focused before the panel opened
  let timer = 0;

  const title = h("b");
  const facts = h("span", { class: "odps-x-muted" });
  const described = h("span", { class: "odps-x-muted odps-x-described" });
  const heading = h("div", {}, title, facts, described);
  const search = h("input", {
    type: "search",
    title: "finds text in the displayed values, ignoring case; blobs are not searched",
    maxlength: 200,
    onkeydown: (event) => {
      if (event.key === "Enter" && !event.isComposing) find();
    },
    onsearch: () => search.value === "" && find(),
  });
  const all = h(
    "button",
    { class: "odps-x-all", title: "reads the whole table", onclick: () => send({ do: "profile" }) },
    "Profile all rows"
  );
  const charts = chartPanel(send);
  const profiles = columnProfiles({ filter, open: openColumn });
  const exports = exportPanel(send);
  const chart = h(
    "button",
    { class: "odps-x-open", "aria-expanded": "false", title: "computed by the service", onclick: openChart },
    "Chart"
  );
  const builder = filterForm(
    (message) => (wait("filtering"), send(message)),
    () => filterButton.focus(),
    (n) => [found(n)?.frequent || [], label(), (rows) => amount(rows, found(n))]
  );
  const filterButton = h(
    "button",
    { class: "odps-x-open", onclick: () => builder.open(grid.column()) },
    "Filter"
  );
  const chips = filterChips(
    (edited, at) => builder.open(edited.column, edited, at),
    (at) => box.hasAttribute("aria-busy") || (wait("filtering"), send({ do: "unfilter", ...at })),
    () => box.hasAttribute("aria-busy") || (wait("filtering"), (search.value = ""), send({ do: "clear" }))
  );
  const busy = busyLine(send);
  const problem = h("div", { class: "odps-x-problem", role: "alert" });
  const canTurn = () => !next.disabled;
  const tell = (text) => (said.textContent = text);
  const grid = gridPanel({ send, header, summary, go, canTurn, sort, order, value, openColumn, openCell, showKeys, tell });
  const { box, columns } = grid;
  const help = h("button", { "aria-label": "keys", title: "keys", onclick: showKeys }, "?");
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
  const said = h("span", { class: "odps-x-muted odps-x-said", "aria-live": "polite" });
  const code = h("code");
  const copied = () => (page.opening || "") + code.textContent;
  const copy = h("button", { onclick: () => copyFrom(copy, "Copy", copied()) }, "Copy");
  const panel = h("div", { class: "odps-x-panel odps-x-beside", role: "dialog", hidden: true });
  const root = h(
    "div",
    { class: "odps-x", role: "group", onfocusin: ownKeys },
    h(
      "div",
      { class: "odps-x-bar odps-x-head" },
      heading,
      h("div", {}, search, filterButton, chart, exports.open, columns.open, all, help)
    ),
    chips.box,
    problem,
    builder.form,
    charts.panel,
    exports.panel,
    h("div", { class: "odps-x-stage" }, box, columns.panel, panel, busy.line, columns.rules, grid.menu),
    h("div", { class: "odps-x-bar" }, first, before, where, next, last, jump, said),
    h("div", { class: "odps-x-bar odps-x-code" }, code, copy, exports.cell)
  );
  const live = liveView({ model, el, root, problem, receive, ready: () => ({ do: "ready" }) });

  // -- requests -------------------------------------------------------------------------------

  function go(start, then = null) {
    wanted = then;
    wait("reading");
    send({ do: "page", start: Math.max(0, start) });
  }

  const orders = sorting(send, (text) => (problem.textContent = text));

  function sort(column, event) {
    if (!page) return;
    if (table.columns[column].sortable) wait("sorting with a SQL job on the service");
    orders.click(page, table.columns, column, event);
  }

  function askCost(message) {
    const run = () => (wait("sorting"), send({ do: "agree" }));
    problem.replaceChildren(...costQuestion("This sort", message.text, "Sort anyway", run));
  }

  function order(column, descending) {
    wait("sorting with a SQL job on the service");
    send({ do: "sort", order: [[column, descending]] });
  }

  function value(message) {
    wait("filtering");
    send({ do: "value", ...message });
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

  function openChart() {
    charts.panel.hidden = !charts.panel.hidden;
    chart.setAttribute("aria-expanded", String(!charts.panel.hidden));
    if (!charts.panel.hidden) charts.panel.querySelector("select").focus();
  }

  // -- drawing --------------------------------------------------------------------------------

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
    said.textContent = "";
    problem.textContent = message.text;
    const isStale = root.classList.contains("odps-x-stale"); // no profile of these rows is shown
    if (message.task === "profile" && isStale) described.textContent = " · no profile";
    exports.receive(message);
  }

  function showTable(message) {
    table = message;
    title.textContent = table.title;
    root.setAttribute("aria-label", `rows of ${table.title}`);
    grid.setTable(table);
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

  const found = (n) => profile && profile.columns[n];
  const label = () => profile && profile.label + (page?.unprofiled ?? "");

  function summary(column, n) {
    return profiles.summary(column, n, found(n), label());
  }

  function showPage(message, buffer) {
    page = { ...message, cells: JSON.parse(new TextDecoder().decode(buffer)) };
    grid.show(page, root.contains(focusNear(root)) ? wanted : null);
    wanted = null;
    showAround();
  }

  function showCount({ total, rows, note, why = "" }) {
    Object.assign(page, { total, note });
    facts.textContent = [rows, many(table.all_columns, "column")].map((one) => one && ` · ${one}`).join("");
    facts.title = why && `the rows were not counted: ${why}`;
    const end = page.start + page.count;
    const of = total === null ? "· more may follow" : `of ${count(total)}`;
    where.textContent = page.count ? `rows ${count(page.start + 1)}–${count(end)} ${of}` : "no rows";
    for (const one of [note, page.about]) if (one) where.textContent += ` · ${one}`;
    first.disabled = before.disabled = page.start === 0;
    next.disabled = total !== null && end >= total;
    last.disabled = next.disabled || total === null;
    jump.disabled = total === null;
    grid.setTotal(total);
  }

  function showAround() {
    showCount(page);
    root.classList.toggle("odps-x-stale", !page.profiled);
    if (profile && page.profiled) showLabel();
    else described.textContent = page.total === 0 ? "" : " · profile: reading the rows…";
    code.textContent = page.code;
    if (focusNear(search) !== search) search.value = page.search;
    const endSearch = () => ((search.value = ""), find());
    if (chips.show(page.conditions, page.search, endSearch)) filterButton.focus();
    builder.applied();
    const filter = page.conditions.length ? " that match the filter" : "";
    charts.setFilter(filter + (page.search ? ", also those without the search text" : ""), JSON.stringify(page.conditions));
  }

  function showProfile(message) {
    profile = message;
    root.classList.remove("odps-x-stale");
    all.hidden = profile.whole;
    grid.showProfiles();
    showLabel();
  }

  function showLabel() {
    described.textContent = ` · profile: ${label()}`;
    heading.title = heading.textContent; // the heading may be truncated
    if (!panel.hidden && panel.dataset.column) openColumn(Number(panel.dataset.column), true);
  }

  // -- panels ---------------------------------------------------------------------------------

  // With `updates`, the panel shows new values of the same item and keeps the focus.
  function openPanel(label, parts, updates = false) {
    const at = updates ? [...panel.querySelectorAll("button")].indexOf(focusNear(panel)) : -1;
    if (panel.hidden) back = focusNear(panel);
    columns.close();
    delete panel.dataset.column;
    delete panel.dataset.cell;
    const close = h("button", { "aria-label": "close", onclick: closePanel }, "×");
    panel.setAttribute("aria-label", label);
    panel.replaceChildren(h("div", { class: "odps-x-bar" }, h("b", {}, label), close), ...parts);
    panel.hidden = false;
    if (at >= 0) (panel.querySelectorAll("button")[at] || close).focus();
    else if (!updates) (panel.querySelector("button.odps-x-row") || close).focus({ preventScroll: true });
  }

  function closePanel() {
    if (panel.hidden) return;
    panel.hidden = true;
    if (back && root.contains(back)) back.focus();
    else grid.place(true);
  }

  function showKeys() {
    const lines = GRID_KEYS.map(([keys, text]) => h("div", {}, h("span", {}, keys), text));
    openPanel("Keys of the grid", [h("div", { class: "odps-x-keys" }, ...lines)]);
  }

  function openColumn(n, updates = false) {
    const column = table.columns[n];
    const kind = [column.type, column.comment].filter(Boolean).join(" · ");
    const parts = [h("div", { class: "odps-x-muted" }, kind)];
    parts.push(...profiles.parts(n, found(n), label()));
    parts.push(h("button", { onclick: () => (closePanel(), builder.open(n)) }, "Filter…"));
    openPanel(column.name, parts, updates);
    panel.dataset.column = String(n);
  }

  function openCell(row, n) {
    openPanel(`${table.columns[n].name}, row ${count(page.start + row + 1)}`, [h("pre", {}, "…")]);
    panel.dataset.cell = `${page.start + row},${n}`;
    send({ do: "cell", row: page.start + row, column: n });
  }

  function showCell(message) {
    const into = panel.querySelector("pre");
    const of = `${message.row},${message.column}`; // another cell may have been opened in the meantime
    if (panel.hidden || panel.dataset.cell !== of) return;
    into.textContent = message.text + (message.cut ? "… (truncated)" : "");
    if (PICTURE.test(message.src)) into.before(h("img", { src: message.src, alt: message.text }));
  }

  columns.open.addEventListener("click", closePanel, true); // before it opens the list of columns
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape") closePanel();
    const rows = [...panel.querySelectorAll("button.odps-x-row")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const now = rows.indexOf(focusNear(panel));
    if (step && now >= 0 && rows[now + step]) {
      rows[now + step].focus();
      event.preventDefault();
    }
  });

  // -- messages -------------------------------------------------------------------------------

  function receive(message, buffers) {
    if (message.kind === "table") showTable(message);
    else if (message.kind === "page") showPage(message, buffers[0]);
    else if (message.kind === "profile") showProfile(message);
    else if (message.kind === "count" && page) showCount(message);
    else if (message.kind === "blobs") grid.showBlobs(message);
    else if (message.kind === "copied") grid.copied(message);
    else if (message.kind === "cell") showCell(message);
    else if (message.kind === "chart") charts.show(message);
    else if (message.kind === "picture") charts.resized(message);
    else if (message.kind === "cost") (message.task === "chart" ? charts.ask : askCost)(message);
    else if (message.kind === "busy") busy.show(message);
    else if (message.kind === "idle") endBusy(message.task);
    else if (message.kind === "problem") showProblem(message);
    else exports.receive(message, buffers);
    if (message.kind === "page") live.appear();
  }
  return () => {
    live.end();
    grid.end();
    charts.end();
    clearTimeout(timer);
  };
}

export default { render };

// The filter builder of the explorer, and the chips of its filters. Python parses what is typed here
// (typed.py) and builds the condition (conditions.py).

const CONDITIONS = {
  range: "is between",
  values: "is one of",
  icontains: "contains",
  istarts: "starts with",
  iends: "ends with",
  contains: "contains (case-sensitive)",
  starts: "starts with (case-sensitive)",
  true: "is true",
  false: "is false",
  null: "is null",
};

// The form that builds one condition; `send` sends it, `leave` moves the focus away, and `frequent(n)`
// returns the frequent values of a column (label, rows and text), a description of the rows that were
// counted, and a function that formats a row count.
function filterForm(send, leave, frequent) {
  const column = h("select", { "aria-label": "column" });
  const kind = h("select", { "aria-label": "condition" });
  const fields = h("span", { class: "odps-x-fields" });
  const exclude = h("input", { type: "checkbox" });
  const form = h(
    "div",
    { class: "odps-x-panel odps-x-filter", role: "form", "aria-label": "filter", hidden: true },
    h("label", {}, "Show rows where ", column),
    kind,
    fields,
    h("label", { title: "includes the rows with a null" }, exclude, " all rows except these"),
    h("button", { onclick: () => apply() }, "Apply"),
    h("button", { onclick: () => close() }, "Cancel")
  );
  let columns = [];
  let place = null; // index and text of the condition being edited
  let sent = false;

  const chosen = () => columns[column.value];
  const inputs = () => [...fields.querySelectorAll(".odps-x-value")];
  const given = () => inputs().filter((one) => one.type !== "checkbox" || one.checked);

  function setColumns(found) {
    columns = found;
    column.replaceChildren(...found.map((one, n) => h("option", { value: n }, one.name)));
    form.hidden = true;
  }

  function offer(op) {
    const { conditions } = chosen();
    kind.replaceChildren(...conditions.map((one) => h("option", { value: one }, CONDITIONS[one])));
    if (conditions.includes(op)) kind.value = op;
  }

  // A field for one value. Text may have several lines, and a time more digits than a picker accepts.
  function field(label, value) {
    const type = chosen().input;
    if (type === "text") {
      const area = h("textarea", { rows: 1, class: "odps-x-value", "aria-label": label });
      area.value = value;
      return area;
    }
    const made = h("input", { class: "odps-x-value", "aria-label": label });
    if (type === "number") made.inputMode = "decimal";
    else [made.type, made.step] = [type, type === "date" ? "" : "1"];
    made.value = value;
    if (value && !made.value) [made.type, made.value] = ["text", value];
    return made;
  }

  function fill(values = [], below = false) {
    const op = kind.value;
    if (op === "range") {
      const upper = h("select", { "aria-label": "upper end" });
      upper.append(h("option", { value: "" }, "up to"), h("option", { value: "below" }, "less than"));
      upper.value = below ? "below" : "";
      const [low, high] = [field("from", values[0] || ""), field("to", values[1] || "")];
      fields.replaceChildren("from ", low, " ", upper, " ", high);
    } else if (op === "values") {
      const more = h("button", { onclick: () => add("").focus() }, "+ value");
      const [listed, ...about] = frequent(Number(column.value));
      const texts = listed.map(([, , text]) => text);
      fields.replaceChildren(...(listed.length ? [valueList(listed, values, ...about)] : []), more);
      const add = (value) => {
        const made = field("value", value);
        const drop = () => (made.remove(), less.remove(), more.focus());
        const less = h("button", { "aria-label": "remove the value", onclick: drop }, "×");
        more.before(made, less);
        return made;
      };
      for (const value of values.length || texts.length ? values : [""]) if (!texts.includes(value)) add(value);
    } else if (/(contains|starts|ends)$/.test(op)) {
      fields.replaceChildren(field("text", values[0] || ""));
    } else fields.replaceChildren();
  }

  function open(n, edited = null, at = null) {
    form.hidden = false;
    place = at;
    sent = false;
    column.value = String(n);
    offer(edited ? edited.op : "");
    exclude.checked = Boolean(edited && edited.exclude);
    fill(edited ? edited.values : [], Boolean(edited && edited.below));
    (edited ? given()[0] || kind : column).focus();
  }

  function close() {
    if (form.hidden) return;
    const hadFocus = form.contains(focusNear(form));
    form.hidden = true;
    if (hadFocus) leave();
  }

  function apply() {
    const op = kind.value;
    const values = given().map((one) => one.value);
    const typed = op === "values" && chosen().input !== "text" ? values.filter(Boolean) : values;
    const upper = fields.querySelector("select");
    sent = true;
    send({
      do: "filter",
      column: Number(column.value),
      op,
      values: typed,
      exclude: exclude.checked,
      below: Boolean(upper && upper.value),
      ...(place || { index: null }),
    });
  }

  column.addEventListener("change", () => (offer(""), fill()));
  kind.addEventListener("change", () => fill());
  form.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") close();
    const ticks = inputs().filter((one) => one.type === "checkbox");
    const at = ticks.indexOf(event.target);
    const to = at >= 0 && ticks[at + { ArrowDown: 1, ArrowUp: -1 }[event.key]];
    if (to) (to.focus(), event.preventDefault());
    if (event.key !== "Enter" || event.shiftKey || !event.target.matches(".odps-x-value")) return;
    event.preventDefault(); // Shift+Enter starts a new line
    apply();
  });
  // A condition that Python rejects stays open for correction.
  const failed = () => (sent = false);
  const applied = () => sent && close();
  return { form, setColumns, open, applied, failed };
}

// The frequent values of a column, to tick; the arrow keys move between them.
function valueList(listed, ticked, label, amount) {
  const rows = listed.map(([name, rows, text]) => {
    const tick = h("input", { type: "checkbox", class: "odps-x-value", value: text });
    tick.checked = ticked.includes(text);
    return h("label", {}, tick, h("bdi", {}, name || "(empty)"), h("span", {}, amount(rows)));
  });
  const title = `most frequent values, ${label}`;
  return h("div", { class: "odps-x-list", role: "group", "aria-label": title, title }, ...rows);
}

// The chips of the filters: a click edits one, × or the Delete key removes it, `clear` removes all.
function filterChips(edit, remove, clear) {
  const box = h("div", { class: "odps-x-chips", role: "group", "aria-label": "filters" });

  const buttons = () => [...box.querySelectorAll("button:enabled")];

  function chip(text, title, onEdit, onRemove) {
    const name = h("bdi", {}, text);
    return h(
      "span",
      {
        class: "odps-x-chip",
        onkeydown: (event) => {
          if (event.key === "Delete" && !event.repeat) onRemove();
        },
      },
      h("button", { title, disabled: !onEdit, onclick: onEdit }, name),
      h("button", { "aria-label": `remove the filter ${text}`, onclick: onRemove }, "×")
    );
  }

  // Shows the chips; returns whether the focused chip was the last one.
  function show(conditions, search, endSearch) {
    const at = buttons().indexOf(focusNear(box));
    const made = conditions.map(({ text, where, edit: edited }, n) =>
      chip(text, where, edited && (() => edit(edited, { index: n, where })), () => remove({ index: n, where }))
    );
    if (search) made.push(chip(`search: ${search}`, "", null, endSearch));
    if (made.length > 1) made.push(h("button", { onclick: clear }, "Clear all filters"));
    box.replaceChildren(...made);
    const next = buttons()[Math.min(at, buttons().length - 1)];
    if (next) next.focus();
    return at >= 0 && !next;
  }

  return { box, show };
}

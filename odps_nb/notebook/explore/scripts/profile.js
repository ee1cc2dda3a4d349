// The profiles of an explorer's columns: the row below the header, and the details in a panel.

const SVG = "http://www.w3.org/2000/svg";

// Formats a number of profiled rows as a share and a number; for a sample, only as a share.
const share = (rows, { rows: all, sample }) => (sample ? aboutPercent(rows, all) : percent(rows, all));
const amount = (rows, found) => (found.sample ? share(rows, found) : count(rows));

// `filter(column, bar, exclude)` filters by a bar; bar -1 selects the rows with a null.
function columnProfiles({ filter, open }) {
  const groups = (found) => found.bars.map((bar, n) => [...bar, n]);
  const beside = (found) => groups(found).filter((one) => found.beside.includes(one[3]));
  const drawn = (found) => groups(found).filter((one) => !found.beside.includes(one[3]));
  const largest = (bars) => Math.max(1, ...bars.map(([, rows, whole]) => Math.max(rows, whole || 0)));
  const outliers = (found) => (found.is_line ? beside(found) : []);

  // The tooltip of a bar; `whole` is its row count without the filter, scaled to the filtered rows.
  function tip([label, rows, whole], found) {
    const scaled = whole && Math.round(whole);
    const usual = whole ? ` (without the filter: ${found.sample ? amount(scaled, found) : `about ${count(scaled)}`})` : "";
    return `${label}: ${found.sample ? amount(rows, found) : many(rows, "row")}${usual}`;
  }

  function spoken(found) {
    const ends = found.ends[0] || found.ends[1] ? found.ends.join(" to ") : "";
    const named = outliers(found).map(([label, rows]) => `${amount(rows, found)} ${label}`);
    return [found.words, ends, ...named].filter(Boolean).join(", ");
  }

  function shape(name, attributes, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function chart(n, found) {
    const bars = drawn(found);
    const most = largest(bars);
    const width = 6;
    const rect = (place, high, kind) =>
      shape("rect", { x: place * width, y: 28 - high, width: width - 1, height: high, class: `odps-x-${kind}` });
    const tall = (rows) => (rows ? Math.max(1, Math.round((26 * rows) / most)) : 0);
    const made = bars.map((bar, place) => {
      const title = shape("title", {}, tip(bar, found));
      const space = rect(place, 28, "space"); // makes the space above the bar clickable
      const parts = [space, rect(place, tall(bar[2]), "whole"), rect(place, tall(bar[1]), "count")];
      const both = shape("g", {}, title, ...parts);
      both.addEventListener("click", (event) => {
        event.stopPropagation();
        filter(n, bar[3], event.shiftKey);
      });
      return both;
    });
    const size = { width: Math.max(1, bars.length) * width, height: 28, "aria-hidden": "true" };
    return bars.length ? [shape("svg", size, ...made)] : [];
  }

  function ends(found) {
    const top = drawn(found).reduce((one, next) => (next[1] > one[1] ? next : one), ["", 0]);
    if (found.is_line && found.ends[0]) return [found.ends.join(" – ")];
    if (top[1]) return [h("bdi", {}, top[0] || "(empty)"), ` ${share(top[1], found)}`];
    return ["\u00a0"];
  }

  function named(n, found, [label, rows, , bar]) {
    const click = (event) => {
      event.stopPropagation();
      filter(n, bar, event.shiftKey);
    };
    return h("span", { class: "odps-x-outlier", title: "show only these rows", onclick: click }, `${amount(rows, found)} ${label}`);
  }

  // The cell of a column in the row below the header.
  function summary(column, n, found, label) {
    const cell = h("td", {
      role: "gridcell",
      tabindex: -1,
      class: `odps-x-profile${column.number ? " odps-x-number" : ""}`,
      "data-row": -1,
      "data-column": n,
      onclick: () => open(n),
    });
    if (!found) {
      cell.append(h("span", { class: "odps-x-muted" }, "…"));
      return cell;
    }
    const words = [found.words, found.is_log && "log axis"].filter(Boolean).join(" · ");
    cell.append(...chart(n, found), h("div", { class: "odps-x-ends" }, ...ends(found)));
    cell.append(h("div", { class: "odps-x-muted" }, words || "\u00a0"));
    const far = outliers(found).flatMap((one) => [", ", named(n, found, one)]).slice(1);
    if (far.length) cell.append(h("div", { class: "odps-x-muted odps-x-ends" }, ...far));
    cell.setAttribute("aria-label", `profile of ${column.name}: ${spoken(found)}`);
    cell.title = `${spoken(found)}\n${label}`;
    return cell;
  }

  function row(n, found, most, [label, rows, whole, bar]) {
    const fills = [];
    for (const [size, kind] of [[whole || 0, "whole"], [rows, "filled"]]) {
      const fill = h("span", { class: `odps-x-filled odps-x-${kind}` });
      fill.style.width = `${Math.min(100, (100 * size) / most)}%`;
      if (size) fills.push(fill);
    }
    const click = (event) => filter(n, bar, event.shiftKey);
    return h(
      "button",
      { class: "odps-x-row", title: `${tip([label, rows, whole], found)}\nshow only these rows; with Shift, all others`, onclick: click },
      ...fills,
      h("bdi", {}, label || "(empty)"),
      h("span", {}, found.sample ? share(rows, found) : `${count(rows)} · ${share(rows, found)}`)
    );
  }

  // The profile part of a column's panel.
  function parts(n, found, label) {
    if (!found) return [h("div", {}, "no profile yet")];
    const facts = found.facts.map(([name, text]) =>
      h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, h("bdi", {}, text)))
    );
    const groups = [...drawn(found), ...beside(found)];
    if (found.nulls) groups.push(["null", found.nulls, null, -1]);
    const most = largest(groups);
    const rows = groups.map((one) => row(n, found, most, one));
    const axis = found.is_log ? " · log axis" : "";
    return [
      h(
        "div",
        { class: "odps-x-both" },
        h("table", { class: "odps-x-facts" }, h("tbody", {}, ...facts)),
        h("div", { class: "odps-x-rows" }, ...rows)
      ),
      h("div", { class: "odps-x-muted" }, label + axis),
    ];
  }

  return { summary, parts };
}

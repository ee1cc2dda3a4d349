// The sort order of an explorer: marks in the headers, clicks, and the cost question.

// Asks whether to run a job that reads a lot of data.
const costQuestion = (job, text, label, run) => [`${job} ${text}. `, h("button", { onclick: run }, label)];

function sorting(send, say) {
  // The order after a click on a column: ascending, then descending, then unsorted. `adds`
  // keeps the other sort columns.
  function clicked(order, column, adds) {
    const now = order.find(([n]) => n === column);
    const others = order.filter(([n]) => n !== column);
    if (!adds && others.length) return [[column, false]];
    if (now && now[1]) return others;
    return now ? order.map((one) => (one === now ? [column, true] : one)) : [...order, [column, false]];
  }

  function click(page, columns, n, event) {
    const { name, type, sortable } = columns[n];
    if (!sortable) {
      say(`${name} cannot be sorted: ${type} values have no order`);
      return false;
    }
    send({ do: "sort", order: clicked(page.order, n, event.shiftKey) });
    return true;
  }

  // The state and the mark of a header; with several sort columns, the mark includes the position.
  function mark(order, n) {
    const place = order.findIndex(([column]) => column === n);
    if (place < 0) return { state: "none", text: "" };
    const [, descending] = order[place];
    const number = order.length > 1 ? ` ${place + 1}` : "";
    const state = descending ? "descending" : "ascending";
    return { state, text: ` ${descending ? "▼" : "▲"}${number}` };
  }

  const hint = (column) =>
    column.sortable
      ? "sort (starts a SQL job); Shift+click or Shift+Enter sorts by several columns"
      : `${column.type} values have no order`;

  return { click, mark, hint };
}

// Exports the selected rows: as a downloaded file, or as code in a new cell (exports.py).

const FILES = { csv: "CSV", xlsx: "Excel", parquet: "Parquet" };

function exportPanel(send) {
  let number = Math.floor(Math.random() * 2 ** 40); // differs from other views of the widget
  let opening = false;
  let chunks = [];

  const note = h("span", { class: "odps-x-muted", "aria-live": "polite" });
  const buttons = Object.entries(FILES).map(([kind, label]) =>
    h("button", { onclick: () => ask(kind) }, label)
  );
  const saved = h("input", { type: "checkbox" });
  const panel = h(
    "div",
    { class: "odps-x-panel odps-x-export", role: "group", "aria-label": "download", hidden: true },
    h("div", { class: "odps-x-bar" }, h("span", {}, "All rows of this view as"), ...buttons, note),
    h("label", {}, saved, " save in the kernel's folder, without a size limit"),
    h(
      "div",
      { class: "odps-x-muted" },
      "A download has at most about 100 MB. BLOB columns contain references. In CSV, text that begins with = + - or @ " +
        "is unchanged: a spreadsheet may run it as a formula. Excel has at most 1,048,575 rows."
    )
  );
  const open = h(
    "button",
    { "aria-expanded": "false", title: "save all rows of this view as a file", onclick: turn },
    "Download"
  );
  const cell = h(
    "button",
    { title: "add a cell below with code that reads the rows of this view", onclick: () => ((opening = true), send({ do: "open" })) },
    "Open as cell"
  );
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    turn();
    open.focus();
  });

  function turn() {
    panel.hidden = !panel.hidden;
    open.setAttribute("aria-expanded", String(!panel.hidden));
    if (!panel.hidden) buttons[0].focus();
  }

  function ask(kind) {
    number += 1;
    chunks = [];
    note.textContent = "";
    send({ do: "download", file: kind, number, save: saved.checked });
  }

  // Another view of the same widget did not request these chunks.
  function add(message, buffers) {
    if (message.number === number) chunks.push(buffers[0]);
  }

  function save(message) {
    if (message.number !== number || (!chunks.length && !message.saved)) return;
    if (!message.saved && !offer(message)) return;
    note.textContent = `${message.name}: ${message.text}`;
    if (message.cut) note.append("; all rows: ", h("code", {}, message.code));
  }

  // Offers the received file to the browser; returns whether it is complete.
  function offer(message) {
    const file = new Blob(chunks, { type: message.type });
    chunks = [];
    if (file.size !== message.size) {
      note.textContent = "parts of the file did not arrive; download it again";
      return false;
    }
    const link = h("a", { href: URL.createObjectURL(file), download: message.name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    return true;
  }

  // The JupyterLab extension adds the cell and calls preventDefault.
  async function addCell(message) {
    if (!opening) return; // another view of the widget sent the request
    opening = false;
    const event = new CustomEvent("odps-nb-cell", {
      bubbles: true,
      cancelable: true,
      detail: message.code,
    });
    if (!cell.dispatchEvent(event)) return;
    await copyText(message.code);
    cell.textContent = "Copied: paste it into a new cell";
    setTimeout(() => (cell.textContent = "Open as cell"), 4000);
  }

  function receive(message, buffers) {
    if (message.kind === "chunk") add(message, buffers);
    else if (message.kind === "file") save(message);
    else if (message.kind === "open") addCell(message);
    else if (message.kind === "problem" && message.task === "download") chunks = [];
  }

  return { open, panel, cell, receive };
}

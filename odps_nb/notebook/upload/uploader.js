// Browser side of the file picker (uploader.py). Sends only the chunks that the kernel requests;
// see live/common.js.

const SHOWN = 100; // maximum number of files listed

function bytes(size) {
  let unit = 0;
  for (; size >= 999.5 && unit < 4; unit++) size /= 1000;
  return `${unit ? size.toPrecision(3) : size} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
}

function render({ model, el }) {
  let files = [];
  let lines = [];
  let run = 0;
  let came = []; // bytes sent to the kernel for each file
  let running = false;
  let queue = Promise.resolve();

  const input = h("input", {
    type: "file",
    multiple: true,
    accept: model.get("accept"),
    onchange: () => choose([...input.files]),
  });
  const chooser = h("label", { class: "odps-u-choose" }, input, "Choose files …");
  const start = h("button", { disabled: true, onclick: begin }, "Upload");
  const stop = h("button", { hidden: true, onclick: () => send({ do: "cancel" }) }, "Cancel");
  const status = h("span", { role: "status", "aria-live": "polite" }, "or drop them here");
  const bar = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "all files" });
  const list = h("ul", { "aria-label": "chosen files" });
  const problem = h("div", { class: "odps-u-problem", role: "alert" });
  const send = (message, buffers) => live.send(message, buffers);
  const root = h(
    "div",
    {
      class: "odps-x odps-u",
      role: "group",
      onfocusin: ownKeys,
      ondragover: (event) => over(event, !running),
      ondragleave: (event) => over(event, false),
      ondrop: (event) => {
        over(event, false);
        if (!running) choose([...event.dataTransfer.files]);
      },
    },
    h("div", {}, h("b", {}, `upload to ${model.get("where")}`)),
    h("div", { class: "odps-u-bar" }, chooser, start, stop, status),
    bar,
    list,
    problem
  );
  function over(event, is) {
    event.preventDefault();
    root.classList.toggle("odps-u-over", is);
  }

  const total = () => files.reduce((sum, file) => sum + file.size, 0);

  function choose(chosen) {
    files = chosen;
    problem.replaceChildren();
    root.dataset.state = "";
    lines = files.slice(0, SHOWN).map((file) => {
      const about = { max: file.size || 1, value: 0, "aria-label": file.name };
      return { bar: h("progress", about), said: h("span", {}, "") };
    });
    const rows = lines.map((line, at) =>
      h("li", {}, h("bdi", {}, files[at].name), h("span", {}, bytes(files[at].size)), line.bar, line.said)
    );
    if (files.length > SHOWN) rows.push(h("li", {}, `and ${files.length - SHOWN} more`));
    list.replaceChildren(...rows);
    status.textContent = files.length
      ? `${files.length} file${files.length === 1 ? "" : "s"}, ${bytes(total())}`
      : "or drop them here";
    bar.hidden = true;
    start.disabled = !files.length;
  }

  function begin() {
    run += 1;
    came = files.map(() => 0);
    problem.replaceChildren();
    work(true, "");
    bar.value = 0;
    bar.hidden = false;
    status.textContent = "sending to the kernel (continues only while no cell is running)";
    const told = files.map((file) => ({
      name: file.name,
      size: file.size,
      modified: file.lastModified,
    }));
    send({ do: "upload", run, files: told });
  }

  function work(is, state) {
    running = is;
    root.dataset.state = state;
    start.disabled = is || !files.length;
    input.disabled = is;
    chooser.setAttribute("aria-disabled", String(is));
    stop.hidden = !is;
  }

  function show(at, value, said) {
    if (at >= lines.length) return;
    lines[at].bar.value = files[at].size ? value : 1;
    lines[at].said.textContent = said;
  }

  // Sequentially, because the kernel expects the chunks of a file in order.
  function want(piece) {
    if (running) queue = queue.then(() => give(piece));
  }

  async function give({ run: mine, file, start: from, size }) {
    if (mine !== run || !running) return;
    try {
      const piece = await files[file].slice(from, from + size).arrayBuffer();
      if (mine !== run || !running) return;
      send({ do: "piece", run, file, start: from, size }, [piece]);
      came[file] = from + size;
      bar.value = came.reduce((sum, one) => sum + one, 0) / total() / 2;
      const whole = files[file].size;
      show(file, came[file], came[file] < whole ? `to the kernel, ${percent(came[file], whole)}` : "in the kernel");
    } catch (error) {
      if (mine === run) send({ do: "unreadable", run, file, why: String(error) });
    }
  }

  function busy({ text, share, done, moving }) {
    status.textContent = text;
    bar.value = 0.5 + (share ?? 0) / 2; // sending to the kernel was the first half
    let at = done;
    if (moving) while (at < files.length && files[at].name !== moving[0]) at += 1;
    for (let n = 0; n < Math.min(at, lines.length); n++) show(n, files[n].size, "sent");
    if (moving && at < files.length) {
      const [, sent] = moving;
      const size = files[at].size;
      show(at, sent, sent < size ? `to the service, ${percent(sent, size)}` : "sent");
    }
  }

  function ended(state, text) {
    work(false, state);
    status.textContent = text;
  }

  function ready({ said }) {
    live.appear();
    if (said && !files.length) status.textContent = said;
  }

  const heard = {
    want,
    busy,
    done: ({ text }) => {
      bar.value = 1;
      files.forEach((file, at) => show(at, file.size, "written"));
      ended("done", text);
    },
    problem: ({ lines: said, state }) => {
      bar.hidden = true;
      lines.forEach((line) => { line.bar.value = 0; line.said.textContent = ""; });
      ended(state, state);
      problem.replaceChildren(...said.map((line) => h("div", {}, line)));
    },
  };
  const receive = (message) => {
    if (message.kind === "ready") ready(message);
    else if (message.run === run && heard[message.kind]) heard[message.kind](message);
  };
  const live = liveView({ model, el, root, problem, receive, ready: () => ({ do: "ready" }) });
  return live.end;
}

export default { render };

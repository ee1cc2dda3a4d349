// Code shared by all widget scripts and prepended to each of them. Text from the service becomes
// text nodes, never markup. Large data arrives as messages, never as widget state. No external
// resources are loaded.

const PICTURE = /^data:image\/(png|jpeg|webp|svg\+xml);base64,[A-Za-z0-9+/=]*$/;
const NO_ANSWER = "no response yet: the kernel is busy, or it was restarted; after a restart, run the cell again";
const KERNEL_BUSY = "the kernel is busy; it responds when the running cell ends";
const KERNEL_GONE = "the kernel has stopped or was restarted; run the cell again for the live view";
// Text and background colours of hosts. A view uses a pair only if the host sets both variables,
// because some hosts set only some of JupyterLab's variables.
const HOST_COLOURS = [
  ["--vscode-editor-foreground", "--vscode-editor-background"],
  ["--colab-primary-text-color", "--colab-primary-surface-color"],
  ["--jp-ui-font-color1", "--jp-layout-color0"],
];

function h(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null) made.append(child);
  return made;
}

// For `onfocusin`: disables the notebook's shortcuts while an element of a widget has the focus. The
// shortcuts match the focused element (`:focus`) or its ancestors.
const ownKeys = (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true");

// The focused element of the document or shadow root that contains `node`.
const focusNear = (node) => node.getRootNode().activeElement;

const many = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;
const count = (n) => Number(n).toLocaleString("en-US");

// Formats a share like `format_percent` in progress/words.py: only a share of 0 is 0 %, only 1 is 100 %.
function percent(n, of) {
  if (!of) return "";
  const share = (100 * n) / of;
  if (share > 0 && share < 0.1) return "< 0.1 %";
  if (share > 99.9 && share < 100) return "> 99.9 %";
  return `${share.toFixed(share < 10 || share > 99 ? 1 : 0).replace(/\.0$/, "")} %`;
}

// Formats a share of a sample like `about_percent` in progress/words.py.
function aboutPercent(n, of) {
  const share = of ? (100 * n) / of : 0;
  if (share <= 0 || share >= 100) return share ? "all" : "none seen";
  if (share < 1) return "under 1 %";
  return share > 99 ? "over 99 %" : `about ${Math.round(share)} %`;
}

// Shows a picture that the kernel drew (explore/charts/drawing.py), whose marks have titles as tooltips. The
// page's policy and the check below reject everything but shapes and text.
const SVG_PARTS = ["svg", "title", "path", "rect", "circle", "g", "text"];
function svgPicture(text) {
  const made = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  for (const one of [made, ...made.querySelectorAll("*")]) {
    const active = [...one.attributes].some(({ name }) => /^on|href$/i.test(name));
    if (active || !SVG_PARTS.includes(one.localName)) return h("div", {}, "the chart is not valid");
  }
  return document.importNode(made, true);
}

// Returns a function that measures the width of an element, and a function that stops watching it.
// Calls `tell` when the width has changed since the measurement, for example after a panel opened.
function widthOf(element, tell) {
  let [measured, timer] = [0, 0];
  const observer = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const width = element.clientWidth;
      if (width && Math.abs(width - measured) >= 24) tell(); // ignores the width of a scroll bar
    }, 200);
  });
  observer.observe(element);
  const stop = () => {
    clearTimeout(timer);
    observer.disconnect();
  };
  return [() => (measured = element.clientWidth), stop];
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { style: "position:fixed;opacity:0" }); // fallback without permission
    let back = document.activeElement;
    while (back?.shadowRoot?.activeElement) back = back.shadowRoot.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    if (back) back.focus();
  }
}

// Copies text. The button shows "Copied" for 1.5 seconds, and then `label` again.
async function copyFrom(button, label, text) {
  await copyText(text);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = label), 1500);
}

// The status line of a long-running task in the kernel, with a Cancel button and a progress bar. The
// button comes first: a text that changes while the button is pressed must not move it.
function busyLine(send) {
  const text = h("span");
  const bar = h("progress", { "aria-label": "progress" });
  const stop = h("button", {}, "Cancel");
  const line = h("div", { class: "odps-x-busy", hidden: true }, stop, bar, text);
  const show = (message) => {
    line.hidden = false;
    line.dataset.task = message.task;
    text.textContent = message.text;
    stop.textContent = message.stop || "Cancel";
    if (message.share === null) bar.removeAttribute("value");
    else bar.value = message.share;
    stop.onclick = () => send({ do: "cancel", task: message.task });
  };
  const end = (task) => {
    if (line.dataset.task === task) line.hidden = true;
  };
  return { line, show, end };
}

// Yields a document or shadow root, and the open shadow roots in it.
function* rootsIn(root) {
  yield root;
  for (const one of root.querySelectorAll("*")) if (one.shadowRoot) yield* rootsIn(one.shadowRoot);
}

// Yields the roots of a window and of its frames, if they have the same origin as this page.
function* rootsOf(page) {
  let found = null;
  try {
    found = page.document;
  } catch {} // another origin
  if (found) yield* rootsIn(found);
  for (let n = 0; n < page.length; n++) yield* rootsOf(page[n]);
}

// Hides the static page of a view wherever the host shows it, also after the kernel replaces the page.
// Hides its wrapper, too, if that contains nothing else. Returns a function that shows both again.
function hideStatic(model, el) {
  const id = String(model.get("static_id")).replace(/[^0-9a-f]/g, "");
  if (!id) return () => {}; // the button of a card has no static page
  const mark = `.odps-nb-${id}`;
  const near = [];
  for (let root = el.getRootNode(); root; root = root.host?.getRootNode()) near.push(root);
  const holds = (root) => root.querySelector(mark) !== null;
  const found = near.some(holds) ? near.filter(holds) : [...rootsOf(window.top)].filter(holds);
  const wrappers = `:has(> ${mark}:only-child), .jp-OutputArea-child:has(${mark})`;
  const styles = found.map((root) => {
    const style = (root.ownerDocument ?? root).createElement("style");
    style.textContent = `${mark}, ${wrappers} { display: none !important }`;
    (root.head ?? root).append(style);
    return style;
  });
  return () => styles.forEach((style) => style.remove());
}

function isLight(colour) {
  const canvas = h("canvas", { width: 1, height: 1 }).getContext("2d");
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [red, green, blue] = canvas.getImageData(0, 0, 1, 1).data;
  return 0.299 * red + 0.587 * green + 0.114 * blue > 127;
}

// Gives a view the colours of its host, or else light or dark colours that match the page's text.
function takeColours(root, page) {
  const set = getComputedStyle(root);
  const pair = HOST_COLOURS.find((names) => names.every((name) => set.getPropertyValue(name).trim()));
  if (pair) {
    root.style.setProperty("--x-text", `var(${pair[0]})`);
    root.style.setProperty("--x-back", `var(${pair[1]})`);
  }
  root.style.colorScheme = isLight(getComputedStyle(pair ? root : page).color) ? "dark" : "light";
}

// Connects a live view to the kernel. The view calls `appear` after its first drawing, which hides its
// static page (live_view.py). The page appears again when the kernel has stopped. `ready` returns the
// first request, which is repeated until the kernel responds. If no kernel responds, as in an export or
// a reopened notebook, the view stays hidden. `problem` shows why there is no response.
//
// A kernel with ipykernel 7.0 to 7.3 may leave a message unread until the next message arrives
// (ipykernel issue 1554). A busy kernel queues messages, so the request is repeated less often then.
function liveView({ model, el, root, ready, receive, problem = h("div") }) {
  const known = model.widget_manager?.kernel;
  const kernel = known?.statusChanged ? known : null; // some hosts provide no kernel object, or an incomplete one
  const note = h("div", { class: "odps-x-note", role: "status" });
  let timer = 0;
  let repeat = 0;
  let gone = false;
  let showStatic = null;
  const say = (text) => (problem.textContent = text);
  const hint = (text) => problem.textContent || say(text); // keeps an error or a question
  const unsay = () => [NO_ANSWER, KERNEL_BUSY].includes(problem.textContent) && say("");
  function look() {
    if (kernel.status === "busy") hint(KERNEL_BUSY);
    else unsay();
    timer = setTimeout(look, 1000);
  }
  function send(message, buffers) {
    clearTimeout(timer);
    if (gone) return; // would raise an error
    model.send(message, undefined, buffers);
    timer = kernel ? setTimeout(look, 1000) : setTimeout(hint, 10000, NO_ANSWER);
  }
  function start(left) {
    send(ready());
    const wait = kernel && kernel.status !== "busy" ? 1000 : 5000;
    if (left) repeat = setTimeout(start, wait, left - 1);
  }
  function stop() {
    clearTimeout(timer);
    clearTimeout(repeat);
  }
  function heard(message, buffers) {
    stop();
    unsay();
    if (!showStatic) note.textContent = ["busy", "problem"].includes(message.kind) ? message.text : "";
    receive(message, buffers ?? []); // some hosts pass no buffers
  }
  function appear() {
    if (gone || showStatic) return;
    note.textContent = "";
    root.classList.remove("odps-x-waiting");
    takeColours(root, note);
    showStatic = hideStatic(model, el);
  }
  function changed(_, status) {
    if (["restarting", "autorestarting", "terminating", "dead"].includes(status)) lost();
  }
  function lost() {
    stop();
    gone = true;
    if (!showStatic) return;
    note.textContent = KERNEL_GONE;
    root.classList.add("odps-x-waiting");
    showStatic();
  }
  function end() {
    stop();
    showStatic?.();
    model.off("msg:custom", heard);
    kernel?.statusChanged.disconnect(changed);
    kernel?.disposed?.disconnect(lost);
  }
  root.classList.add("odps-x-waiting");
  el.append(root, note);
  note.addEventListener("transitionend", () => takeColours(root, note)); // the page's theme changed
  model.on("msg:custom", heard);
  kernel?.statusChanged.connect(changed);
  kernel?.disposed?.connect(lost); // shut down
  queueMicrotask(() => start(60)); // after the caller has received the functions returned here
  return { send, appear, end };
}

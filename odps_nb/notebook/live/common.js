// Code shared by all widget scripts and prepended to each of them. Text from the service becomes
// text nodes, never markup. Large data arrives as messages, never as widget state. No external
// resources are loaded.

const PICTURE = /^data:image\/(png|jpeg|webp|svg\+xml);base64,[A-Za-z0-9+/=]*$/;
const NO_ANSWER = "no response yet: the kernel is busy, or it was restarted; after a restart, run the cell again";
const KERNEL_BUSY = "the kernel is busy; it responds when the running cell ends";
const KERNEL_GONE = "the kernel has stopped or was restarted; run the cell again";

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

const many = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;
const count = (n) => Number(n).toLocaleString("en-US");

// A share as a percentage, as `format_percent` in progress/words.py: only none is 0 %, only all 100 %.
function percent(n, of) {
  if (!of) return "";
  const share = (100 * n) / of;
  if (share > 0 && share < 0.1) return "< 0.1 %";
  if (share > 99.9 && share < 100) return "> 99.9 %";
  return `${share.toFixed(share < 10 || share > 99 ? 1 : 0).replace(/\.0$/, "")} %`;
}

// A share of a sample, as `about_percent` in progress/words.py.
function aboutPercent(n, of) {
  const share = of ? (100 * n) / of : 0;
  if (share <= 0 || share >= 100) return share ? "all" : "none seen";
  if (share < 1) return "under 1 %";
  return share > 99 ? "over 99 %" : `about ${Math.round(share)} %`;
}

// While this style is in the page, it hides the static view that is saved in the notebook.
function hidesTwin(model) {
  const id = String(model.get("static_id")).replace(/[^0-9a-f]/g, "");
  return h("style", {}, `.jp-OutputArea-child:has(.odps-nb-${id}) { display: none }`);
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

// Returns a function that measures the width of an element, and one that ends this. Calls `tell`
// when the width has changed since it was measured, for example because a panel was opened.
function widthOf(element, tell) {
  let [measured, timer] = [0, 0];
  const observer = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const width = element.clientWidth;
      if (width && Math.abs(width - measured) >= 24) tell(); // a scroll bar is narrower
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
    const back = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    if (back) back.focus();
  }
}

// Copies a text, and says so on the button with this label.
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

// Shows in `problem` why no response comes, and calls `ended` when the kernel is gone. JupyterLab and
// Notebook 7 report the kernel's status; other front ends report nothing.
function kernelWatch(model, problem, ended) {
  const kernel = model.widget_manager?.kernel;
  let timer = 0;
  let gone = false;
  const say = (text) => (problem.textContent = text);
  const hint = (text) => problem.textContent || say(text); // keeps an error or a question
  const unsay = () => [NO_ANSWER, KERNEL_BUSY].includes(problem.textContent) && say("");
  function look() {
    if (kernel.status === "busy") hint(KERNEL_BUSY);
    else unsay();
    timer = setTimeout(look, 1000);
  }
  function changed(_, status) {
    if (["restarting", "autorestarting", "terminating", "dead"].includes(status)) lost();
  }
  function lost() {
    gone = true;
    clearTimeout(timer);
    ended();
    say(KERNEL_GONE);
  }
  // Sends a request with `send`, which would raise an error without a kernel.
  function ask(send) {
    clearTimeout(timer);
    if (gone) return lost();
    send();
    timer = kernel ? setTimeout(look, 1000) : setTimeout(hint, 10000, NO_ANSWER);
  }
  function heard() {
    clearTimeout(timer);
    unsay();
  }
  function end() {
    clearTimeout(timer);
    kernel?.statusChanged.disconnect(changed);
    kernel?.disposed.disconnect(lost);
  }
  kernel?.statusChanged.connect(changed);
  kernel?.disposed.connect(lost); // shut down
  return { ask, heard, end };
}

// Adds a live view without showing it, and returns a function that shows it in place of the static
// view. Call that function when the live view has something to show. Until then it keeps its width.
function inPlaceOfTwin(model, el, root) {
  root.classList.add("odps-x-waiting");
  el.append(root);
  return () => {
    if (!root.classList.contains("odps-x-waiting")) return;
    root.classList.remove("odps-x-waiting");
    el.prepend(hidesTwin(model));
  };
}

// Sends "ready" until the kernel responds, and returns a function that stops sending. Without a
// response, the view stays hidden. A kernel with ipykernel 7.0 to 7.3 may leave a message unread
// until the next one arrives (ipykernel issue 1554). A busy kernel answers each message later, so it
// gets fewer of them.
function sayUntilHeard(model, say) {
  const kernel = model.widget_manager?.kernel;
  let timer = 0;
  const again = (left) => {
    say();
    const wait = kernel && kernel.status !== "busy" ? 1000 : 5000;
    if (left) timer = setTimeout(again, wait, left - 1);
  };
  again(60);
  return () => clearTimeout(timer);
}

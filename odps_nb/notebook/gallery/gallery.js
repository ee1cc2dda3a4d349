// Browser side of the gallery (view.py). The page contains only the tiles in view. The blobs' order
// arrives as numbers, and tiles arrive as messages; see live/common.js.

const PLAYER = /^data:(audio|video)\/[a-z0-9]+;base64,[A-Za-z0-9+/=]*$/;
const GAP = 10;
const SHAPES = { grid: { width: 190, height: 218 }, list: { width: 0, height: 92 } };
const KEPT = 500; // maximum cached tiles
const HEIGHT = 694; // three rows of tiles
const KEYS =
  "arrows: move · Space: select · Shift: a range · Enter: enlarge · s: save · c: copy the reference · " +
  "Ctrl+A: all · Escape: none";

function render({ model, el }) {
  const send = (message, buffers) => live.send(message, buffers);
  const me = String(Math.random());
  let gallery = null;
  let order = null; // blob index by position; null: all blobs in row order
  let view = "grid";
  let selected = new Set(); // blob indices
  let focus = 0; // position of the focused tile
  let anchor = 0;
  let opened = -1; // position of the enlarged blob
  let top = 0;
  let asking = 0;
  let asked = 0;
  let questions = 0; // number of the last filter or sort request
  let scale = 0; // scale of the enlarged picture; 0: fit to the stage
  const tiles = new Map(); // by blob, most recently used last
  const alive = new Map(); // tile elements by position

  const blobAt = (place) => (order ? order[place] : place);
  const title = h("b");
  const facts = h("span", { class: "odps-x-muted" });
  const toggle = (name, sign) =>
    h("button", { "data-view": name, "aria-label": `show as a ${name}`, title: name, onclick: () => setView(name) }, sign);
  const views = h("span", { class: "odps-g-views", role: "group", "aria-label": "view" }, toggle("grid", "▦"), toggle("list", "☰"));
  const cost = "sends one small request for each blob not read yet";
  const menu = h("select", { "aria-label": "kind", title: `kind detected from the bytes; ${cost}`, onchange: choose });
  const by = h(
    "select",
    { "aria-label": "order", title: cost, onchange: choose },
    ...[["row", "in row order"], ["name", "by name"], ["size", "by size"]].map(([value, text]) => h("option", { value }, text))
  );
  const way = h("button", { "aria-label": "descending", "aria-pressed": "false", title: "reverse the order", onclick: turn }, "↓");
  const search = h("input", {
    type: "search",
    placeholder: "Search names and text",
    "aria-label": "search names, rows and text",
    title: cost,
    maxlength: 200,
    size: 22,
    onkeydown: (event) => event.key === "Enter" && !event.isComposing && find(),
    onsearch: () => search.value === "" && find(),
  });
  const busy = busyLine(send);
  const problem = h("div", { class: "odps-x-problem", role: "alert" });
  const question = h("div", { class: "odps-x-busy", hidden: true });
  const canvas = h("div", { class: "odps-g-canvas" });
  const box = h(
    "div",
    {
      class: "odps-g-box",
      role: "listbox",
      "aria-multiselectable": "true",
      "aria-description": KEYS,
      onscroll: () => draw(),
      onkeydown: keys,
      onclick: click,
      ondblclick: (event) => placeOf(event) >= 0 && !event.target.dataset.act && open(placeOf(event)),
    },
    canvas
  );
  const large = h("div", { class: "odps-g-large", role: "dialog", tabindex: -1, hidden: true, onkeydown: largeKeys });
  const where = h("span", { class: "odps-g-where", role: "status", "aria-live": "polite" });
  const said = h("span", { class: "odps-x-muted odps-g-said", role: "status" });
  const folder = h("input", { type: "text", value: "blobs", size: 12, "aria-label": "folder to save into", title: "a folder on the kernel's machine; created if needed" });
  const ofSelection = [
    h("button", { onclick: () => save(null) }, "Save selected"),
    h("button", { onclick: () => send({ do: "copy" }) }, "Copy references"),
    h("button", { onclick: () => select([]) }, "Clear"),
  ];
  const every = h("button", { onclick: selectAll }, "Select all");
  const root = h(
    "div",
    { class: "odps-x odps-g", role: "group", onfocusin: ownKeys },
    h("div", { class: "odps-x-bar" }, h("div", {}, title, facts), views, menu, by, way, search),
    busy.line,
    question,
    problem,
    box,
    large,
    h("div", { class: "odps-x-bar" }, h("div", {}, where, said), every, ...ofSelection, h("label", {}, "Folder ", folder))
  );
  // -- filter and order -----------------------------------------------------------------------

  function ask(more) {
    problem.textContent = "";
    question.hidden = true;
    const choice = { chosen: menu.value, search: search.value, order: by.value, descending: way.getAttribute("aria-pressed") === "true" };
    send({ do: "choose", by: me, number: ++questions, ...choice, ...more });
  }

  function choose() {
    box.setAttribute("aria-busy", "true");
    ask({});
  }

  function turn() {
    way.setAttribute("aria-pressed", String(way.getAttribute("aria-pressed") !== "true"));
    choose();
  }

  function find() {
    if (gallery && search.value.trim() !== gallery.search) choose();
  }

  function showQuestion(text) {
    box.removeAttribute("aria-busy");
    const yes = h("button", { onclick: () => ask({ sure: true }) }, "Read them");
    const no = () => ((question.hidden = true), showChoice());
    question.replaceChildren(h("span", {}, text), yes, h("button", { onclick: no }, "Not now"));
    question.hidden = false;
    yes.focus();
  }

  function showChoice() {
    menu.replaceChildren(...gallery.menu.map(([value, text]) => h("option", { value }, text)));
    if (!gallery.menu.some(([value]) => value === gallery.chosen))
      menu.append(h("option", { value: gallery.chosen }, gallery.chosen));
    menu.value = gallery.chosen;
    by.value = gallery.order;
    way.setAttribute("aria-pressed", String(gallery.descending));
    way.textContent = gallery.descending ? "↑" : "↓";
    if (focusNear(search) !== search) search.value = gallery.search;
  }

  // A response to an older request leaves the controls unchanged, because a newer one will follow.
  function settled(message) {
    if (message.by === me && message.number !== questions) return;
    box.removeAttribute("aria-busy");
    if (gallery) showChoice();
  }

  function showGallery(message, buffers) {
    if (!gallery) {
      live.appear();
      view = message.view;
    }
    gallery = message;
    order = buffers.length ? numbers(buffers[0]) : null;
    title.textContent = gallery.title;
    const part = gallery.count === gallery.total ? "" : `${count(gallery.count)} of `;
    facts.textContent = [` · ${part}${gallery.summary}`, gallery.note].filter(Boolean).join(" · ");
    box.setAttribute("aria-label", `blobs of ${gallery.title}`);
    settled(message);
    if (gallery.fresh) {
      [focus, anchor] = [0, 0];
      box.scrollTop = 0;
      closeLarge();
    }
    setView(view);
  }

  function setView(name) {
    view = name;
    box.dataset.view = view;
    for (const one of views.children) one.setAttribute("aria-pressed", String(one.dataset.view === view));
    for (const one of alive.values()) one.remove();
    alive.clear();
    const { rows, height } = shape();
    box.style.height = `${Math.max(60, Math.min(HEIGHT, rows * height + GAP))}px`;
    draw();
    into(focus);
    showSelection();
  }

  // -- the tiles in view ------------------------------------------------------------------------

  function shape() {
    const { width, height } = SHAPES[view];
    const room = Math.max(1, canvas.clientWidth - GAP);
    const across = view === "list" ? 1 : Math.max(1, Math.floor(room / (width + GAP)));
    return { across, width: Math.floor(room / across) - GAP, height: height + GAP, rows: Math.ceil(gallery.count / across) };
  }

  function draw() {
    if (!gallery || !box.clientWidth) return;
    const { across, width, height, rows } = shape();
    canvas.style.height = `${rows * height + GAP}px`;
    const from = Math.max(0, Math.floor(box.scrollTop / height) - 1) * across;
    const to = Math.min(gallery.count, (Math.ceil((box.scrollTop + box.clientHeight) / height) + 1) * across);
    const inView = (place) => place >= from && place < to;
    for (const [place, one] of alive) {
      if (inView(place) || place === focus) continue; // keep the focused tile
      one.remove();
      alive.delete(place);
    }
    for (let place = from; place < to; place++) if (!alive.has(place)) put(place);
    if (gallery.count && !alive.has(focus)) put(focus);
    for (const [place, one] of alive) {
      one.style.left = `${GAP + (place % across) * (width + GAP)}px`;
      one.style.top = `${GAP + Math.floor(place / across) * height}px`;
      one.style.width = `${width}px`;
    }
    if (!gallery.count) canvas.replaceChildren(h("div", { class: "odps-x-muted odps-g-none" }, "no blobs"));
    else canvas.querySelector(".odps-g-none")?.remove();
    const wait = Math.max(0, 80 - (performance.now() - asked)); // at most one request per 80 ms
    clearTimeout(asking);
    asking = setTimeout(() => want(from, to), wait);
  }

  function want(from, to) {
    const missing = [];
    for (let place = from; place < to; place++) if (!tiles.has(blobAt(place))) missing.push(blobAt(place));
    if (!missing.length) return;
    asked = performance.now();
    send({ do: "tiles", indices: missing.slice(0, 200) });
  }

  function put(place) {
    const blob = blobAt(place);
    const one = h("div", {
      class: "odps-g-tile",
      role: "option",
      tabindex: place === focus ? 0 : -1,
      "aria-posinset": place + 1,
      "aria-setsize": gallery.count,
      "aria-selected": String(selected.has(blob)),
      "data-place": place,
      "data-blob": blob,
    });
    alive.set(place, one);
    canvas.append(one);
    const tile = tiles.get(blob);
    if (tile) {
      tiles.delete(blob);
      tiles.set(blob, tile);
    }
    fill(one, tile);
  }

  function fill(one, tile) {
    const blob = Number(one.dataset.blob);
    const check = h("span", { class: "odps-g-check", "aria-hidden": "true", "data-act": "check" }, "✓");
    if (!tile) {
      one.setAttribute("aria-label", `blob ${blob}, not read yet`);
      one.replaceChildren(h("div", { class: "odps-g-shot" }, h("span", { class: "odps-x-muted" }, "…")), check);
      return;
    }
    const act = (name, sign, text) =>
      h("button", { tabindex: -1, "aria-hidden": "true", "data-act": name, title: text }, sign);
    one.classList.toggle("odps-g-failed", tile.failed);
    one.setAttribute("aria-label", [tile.name, tile.words, tile.row, ...tile.notes].filter(Boolean).join(", "));
    const marked = marks(tile).slice(0, 2); // there is space for two lines; the enlarged view shows all
    one.replaceChildren(
      h("div", { class: "odps-g-shot" }, shot(tile)),
      h(
        "div",
        { class: "odps-g-caption" },
        h("div", { class: "odps-g-name", title: tile.name }, h("bdi", {}, tile.name)),
        h("div", { class: "odps-x-muted odps-g-line", title: tile.words }, tile.verified ? "✓ " : "", tile.words),
        tile.row && marked.length < 2 ? h("div", { class: "odps-g-line", title: tile.row }, h("bdi", {}, tile.row)) : null,
        ...marked
      ),
      check,
      h("div", { class: "odps-g-acts" }, act("open", "⤢", "enlarge (Enter)"), act("save", "Save", "save (s)"), act("copy", "Copy reference", "copy the reference (c)"))
    );
  }

  function shot(tile) {
    const about = { src: tile.src, alt: `${tile.name}, ${tile.words}`, draggable: "false" };
    if (PICTURE.test(tile.src)) return h("img", { ...about, class: tile.checked ? "odps-g-checked" : "" });
    if (tile.rows) {
      const lines = tile.text.split("\n");
      const first = Math.max(0, lines.findIndex((line) => line.includes("\t"))); // skip the heading
      const cells = (line) => line.split("\t").map((text) => h("td", { dir: "auto" }, text));
      const rows = lines.slice(first).map((line) => h("tr", {}, ...cells(line)));
      const heading = lines.slice(0, first).map((line) => h("div", { class: "odps-g-heading", dir: "auto" }, line));
      return h("div", { class: "odps-g-rows" }, ...heading, h("table", {}, h("tbody", {}, ...rows)));
    }
    if (tile.text) return h("pre", { dir: "auto", class: tile.wraps ? "odps-g-wraps" : null }, tile.text);
    return h("span", { class: "odps-x-muted" }, tile.failed ? "not read" : tile.kind);
  }

  function marks(tile) {
    const made = tile.notes.map((note) => h("div", { class: "odps-g-line odps-g-note", title: note }, note));
    if (tile.declared) made.unshift(h("div", { class: "odps-g-line", title: tile.declared }, h("span", { class: "odps-g-badge" }, `uploaded as ${tile.declared}`)));
    return made;
  }

  function showTile(tile) {
    tiles.delete(tile.index);
    if (!tile.failed) tiles.set(tile.index, tile); // request failed tiles again
    while (tiles.size > KEPT) tiles.delete(tiles.keys().next().value);
    for (const one of alive.values()) if (Number(one.dataset.blob) === tile.index) fill(one, tile);
  }

  // -- selection --------------------------------------------------------------------------------

  const numbers = (buffer) =>
    new Int32Array(buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength));

  function select(blobs) {
    selected = new Set(blobs);
    showSelection();
    send({ do: "select", by: me }, [new Int32Array(selected).buffer]);
  }

  function selectAll() {
    const all = [...selected];
    for (let place = 0; place < gallery.count; place++) all.push(blobAt(place));
    select(all);
  }

  function flip(place) {
    const next = new Set(selected);
    if (!next.delete(blobAt(place))) next.add(blobAt(place));
    anchor = place;
    select(next);
  }

  function range(place, added) {
    const next = added ? [...selected] : [];
    for (let at = Math.min(anchor, place); at <= Math.max(anchor, place); at++) next.push(blobAt(at));
    select(next);
  }

  function showSelection() {
    for (const one of alive.values()) one.setAttribute("aria-selected", String(selected.has(Number(one.dataset.blob))));
    where.textContent = selected.size
      ? `${count(selected.size)} selected`
      : "none selected · Ctrl+click selects several, Shift+click a range";
    for (const one of ofSelection) one.disabled = !selected.size;
    if (opened >= 0) showPicked();
  }

  const placeOf = (event) => {
    const one = event.target.closest(".odps-g-tile");
    return one ? Number(one.dataset.place) : -1;
  };

  function click(event) {
    const place = placeOf(event);
    if (place < 0) return;
    moveTo(place, true); // a double click must not scroll
    const act = event.target.dataset.act;
    if (act === "open") open(place);
    else if (act === "save") save(blobAt(place));
    else if (act === "copy") send({ do: "copy", index: blobAt(place) });
    else if (event.shiftKey) range(place, event.ctrlKey || event.metaKey);
    else if (act === "check" || event.ctrlKey || event.metaKey) flip(place);
    else {
      anchor = place;
      select([blobAt(place)]);
    }
  }

  function save(blob) {
    said.textContent = "";
    problem.textContent = "";
    send({ do: "save", index: blob, folder: folder.value });
  }

  async function copied(message) {
    await copyText(message.text);
    said.textContent = ` · ${message.said}`;
  }

  // -- the keyboard -----------------------------------------------------------------------------

  function into(place) {
    const { across, height } = shape();
    const y = Math.floor(place / across) * height;
    if (y < box.scrollTop) box.scrollTop = y;
    else if (y + height + GAP > box.scrollTop + box.clientHeight) box.scrollTop = y + height + GAP - box.clientHeight;
  }

  function moveTo(place, stays) {
    focus = Math.max(0, Math.min(place, gallery.count - 1));
    if (!gallery.count) return;
    if (!stays) into(focus);
    draw();
    for (const [at, one] of alive) one.tabIndex = at === focus ? 0 : -1;
    alive.get(focus)?.focus({ preventScroll: true });
  }

  function act(event, place) {
    if (event.key === "s") save(blobAt(place));
    else if (event.key === "c") send({ do: "copy", index: blobAt(place) });
    else if (event.key === " ") flip(place);
    else return false;
    return true;
  }

  function keys(event) {
    if (!gallery.count) return;
    const { across, height } = shape();
    const page = across * Math.max(1, Math.floor(box.clientHeight / height));
    const whole = event.ctrlKey || event.metaKey;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, PageUp: -page, PageDown: page };
    if (event.key in steps || event.key === "Home" || event.key === "End") {
      const to = { Home: 0, End: gallery.count - 1 }[event.key] ?? focus + steps[event.key];
      if (to >= 0 && to < gallery.count) moveTo(to);
      else if (event.key.startsWith("Page")) moveTo(to);
      if (event.shiftKey) range(focus, false);
      else if (!whole) anchor = focus;
    } else if (whole && event.key === "a") selectAll();
    else if (whole && event.key === "c") send({ do: "copy", index: blobAt(focus) });
    else if (whole) return;
    else if (event.key === "Enter") open(focus);
    else if (event.key === "Escape") select([]);
    else if (!act(event, focus)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  // -- one blob, enlarged -----------------------------------------------------------------------

  const stage = h("div", { class: "odps-g-stage", tabindex: 0, role: "region", "aria-label": "the blob", onpointerdown: drag, onwheel: wheel });
  const about = h("div", { class: "odps-g-about" });
  const name = h("b", { class: "odps-g-name" });
  const number = h("span", { class: "odps-x-muted", role: "status" });
  const button = (label, sign, onclick) => h("button", { "aria-label": label, title: label, onclick }, sign);
  const back = button("previous (←)", "‹", () => step(-1));
  const next = button("next (→)", "›", () => step(1));
  const zooms = [
    button("smaller (-)", "−", () => zoom(1 / 1.5)),
    button("larger (+)", "+", () => zoom(1.5)),
    button("fit (0)", "Fit", () => fit()),
  ];
  const picked = button("select (Space)", "Select", () => flip(opened));
  const shut = button("close (Escape)", "×", () => closeLarge());
  large.append(
    h("div", { class: "odps-x-bar" }, back, next, number, name, ...zooms, picked, button("save (s)", "Save", () => save(blobAt(opened))), button("copy the reference (c)", "Copy reference", () => send({ do: "copy", index: blobAt(opened) })), shut),
    h("div", { class: "odps-g-both" }, stage, about)
  );

  function open(place) {
    if (opened < 0) top = box.scrollTop;
    opened = focus = place;
    box.hidden = true;
    large.hidden = false;
    showLarge(tiles.get(blobAt(place)) || { index: blobAt(place), name: "…", words: "", row: "", notes: [], src: "", text: "" }, true);
    back.disabled = place === 0;
    next.disabled = place + 1 === gallery.count;
    number.textContent = `${count(place + 1)} of ${count(gallery.count)}`;
    showPicked();
    large.focus();
    send({ do: "large", index: blobAt(place) });
  }

  const step = (by) => opened + by >= 0 && opened + by < gallery.count && open(opened + by);

  function showPicked() {
    const is = selected.has(blobAt(opened));
    picked.setAttribute("aria-pressed", String(is));
    picked.textContent = is ? "✓ Selected" : "Select";
  }

  function showLarge(tile, waits) {
    if (opened < 0 || tile.index !== blobAt(opened)) return;
    stage.toggleAttribute("aria-busy", waits);
    name.textContent = tile.name;
    large.setAttribute("aria-label", tile.name);
    const is = PICTURE.test(tile.src);
    for (const one of zooms) one.disabled = !is;
    if (tile.player && PLAYER.test(tile.player)) {
      const tag = tile.player.startsWith("data:audio/") ? "audio" : "video";
      const refused = () => stage.replaceChildren(shot(tile), h("div", {}, "this browser cannot play it"));
      const poster = is && tag === "video" ? tile.src : null;
      stage.replaceChildren(h(tag, { controls: true, src: tile.player, poster, onerror: refused, "aria-label": tile.name }));
    } else stage.replaceChildren(shot(tile));
    fit();
    const rows = [tile.words, tile.verified ? "✓ verified" : "", tile.row, tile.declared ? `uploaded as ${tile.declared}` : "", ...tile.notes];
    about.replaceChildren(...rows.filter(Boolean).map((text) => h("div", {}, h("bdi", {}, text))));
  }

  function fit() {
    scale = 0;
    const image = stage.querySelector("img");
    if (image) image.style.cssText = "";
    stage.classList.remove("odps-g-zoomed");
  }

  function zoom(by) {
    const image = stage.querySelector("img");
    if (!image) return;
    if (!scale) scale = image.clientWidth / (image.naturalWidth || image.clientWidth || 1);
    const before = [stage.scrollLeft + stage.clientWidth / 2, stage.scrollTop + stage.clientHeight / 2];
    const wider = Math.max(0.05, Math.min(16, scale * by));
    const times = wider / scale;
    scale = wider;
    image.style.cssText = `width:${Math.round(image.naturalWidth * scale)}px;max-width:none;max-height:none`;
    stage.classList.add("odps-g-zoomed");
    stage.scrollTo(before[0] * times - stage.clientWidth / 2, before[1] * times - stage.clientHeight / 2);
  }

  function wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
  }

  function drag(event) {
    if (!scale || event.button) return;
    event.preventDefault();
    stage.setPointerCapture(event.pointerId);
    const move = (one) => stage.scrollBy(-one.movementX, -one.movementY);
    const end = () => stage.removeEventListener("pointermove", move);
    stage.addEventListener("pointermove", move);
    stage.addEventListener("pointerup", end, { once: true });
    stage.addEventListener("pointercancel", end, { once: true });
  }

  function closeLarge() {
    if (opened < 0) return;
    opened = -1;
    stage.replaceChildren(); // stop playback
    const hadFocus = large.contains(focusNear(large));
    large.hidden = true;
    box.hidden = false;
    box.scrollTop = top;
    if (hadFocus) moveTo(focus);
    else draw();
  }

  function largeKeys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const known = {
      ArrowLeft: () => step(-1),
      ArrowRight: () => step(1),
      Home: () => open(0),
      End: () => open(gallery.count - 1),
      Escape: closeLarge,
      "+": () => zoom(1.5),
      "=": () => zoom(1.5),
      "-": () => zoom(1 / 1.5),
      0: fit,
    }[event.key];
    const pressed = event.target.tagName === "BUTTON" && event.key === " ";
    if (scale && event.target === stage && event.key.startsWith("Arrow")) return; // arrows scroll
    if (["AUDIO", "VIDEO"].includes(event.target.tagName) && event.key !== "Escape") return;
    if (known) known();
    else if (pressed || !act(event, opened)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  // -- messages ---------------------------------------------------------------------------------

  function receive(message, buffers) {
    if (message.kind === "gallery") showGallery(message, buffers);
    else if (message.kind === "tiles") message.tiles.forEach(showTile);
    else if (message.kind === "large") showLarge(message.tile, false);
    else if (message.kind === "selected") {
      if (message.by === me) return;
      selected = new Set(numbers(buffers[0]));
      showSelection();
    }
    else if (message.kind === "ask") showQuestion(message.text);
    else if (message.kind === "copied") copied(message);
    else if (message.kind === "said") said.textContent = ` · ${message.text}`;
    else if (message.kind === "busy") busy.show(message);
    else if (message.kind === "idle") {
      busy.end(message.task);
      if (message.task === "choose") settled(message);
    } else if (message.kind === "problem") {
      problem.textContent = message.text;
      if (message.task === "choose") settled(message);
    }
  }
  const sizes = new ResizeObserver(() => draw());
  sizes.observe(box);
  const live = liveView({ model, el, root, problem, receive, ready: () => ({ do: "ready" }) });
  return () => {
    live.end();
    sizes.disconnect();
    clearTimeout(asking);
  };
}

export default { render };

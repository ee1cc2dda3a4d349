// Browser side of a chart (chart.py): the picture with tooltips; see live/common.js.

function render({ model, el }) {
  const title = h("b");
  const note = h("div", { class: "odps-x-muted" });
  const picture = h("div", { class: "odps-x-chart" });
  const copy = h("button", { onclick: () => copyFrom(copy, "Copy code", code) }, "Copy code");
  const root = h(
    "div",
    { class: "odps-x", role: "group", onfocusin: ownKeys },
    h("div", { class: "odps-x-bar" }, title, copy),
    picture,
    note
  );
  let code = "";

  function receive(message) {
    if (message.kind !== "chart") return;
    title.textContent = message.title;
    note.textContent = message.note;
    code = message.code;
    picture.replaceChildren(svgPicture(message.svg));
    live.appear();
  }
  const ready = () => ({ do: "ready", width: width() });
  // a picture needs no kernel, so it shows no message about a busy kernel
  const live = liveView({ model, el, root, ready, receive });
  const [width, stopWatching] = widthOf(picture, () => live.send(ready()));
  return () => {
    stopWatching();
    live.end();
  };
}

export default { render };

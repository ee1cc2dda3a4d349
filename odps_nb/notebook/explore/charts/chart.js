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
  const show = inPlaceOfTwin(model, el, root);
  let code = "";

  function receive(message) {
    stopSaying();
    watch.heard();
    if (message.kind !== "chart") return;
    title.textContent = message.title;
    note.textContent = message.note;
    code = message.code;
    picture.replaceChildren(svgPicture(message.svg));
    show();
  }
  model.on("msg:custom", receive);
  const ready = () => model.send({ do: "ready", width: width() });
  const watch = kernelWatch(model, h("div"), () => {}); // a picture needs no kernel, so it says nothing
  const [width, stopWatching] = widthOf(picture, () => watch.ask(ready));
  const stopSaying = sayUntilHeard(model, ready);
  return () => {
    stopSaying();
    stopWatching();
    watch.end();
    model.off("msg:custom", receive);
  };
}

export default { render };

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
  el.append(hidesTwin(model), root);
  let code = "";

  function receive(message) {
    stopSaying();
    if (message.kind !== "chart") return;
    title.textContent = message.title;
    note.textContent = message.note;
    code = message.code;
    picture.replaceChildren(svgPicture(message.svg));
  }
  model.on("msg:custom", receive);
  const ready = () => model.send({ do: "ready", width: width() });
  const kernel = model.widget_manager?.kernel;
  const isAlive = () => !kernel || !(kernel.isDisposed || kernel.status === "dead");
  const [width, stopWatching] = widthOf(picture, () => isAlive() && ready());
  const stopSaying = sayUntilHeard(ready);
  return () => {
    stopSaying();
    stopWatching();
    model.off("msg:custom", receive);
  };
}

export default { render };

// Browser side of the Cancel button of a card (cards.py); see live/common.js.

function render({ model, el }) {
  const cancel = () => {
    button.disabled = true;
    button.textContent = "Cancelling …";
    live.send({ do: "cancel" });
  };
  const button = h("button", { title: "cancel this operation", onclick: cancel }, "Cancel");
  const root = h("div", { class: "odps-x", onfocusin: ownKeys }, button);
  const ready = () => ({ do: "ready" });
  const live = liveView({ model, el, root, ready, receive: () => live.appear() });
  return live.end;
}

export default { render };

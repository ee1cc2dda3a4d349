"""Measures in Chromium how readable text is, as defined by WCAG."""

from __future__ import annotations

from typing import Any

_FAINT = """(root) => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].map((value) => value / 255);
  };
  const over = (top, share, back) => back.map((value, n) => top[n] * share + value * (1 - share));
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parent = (one) => one.parentElement ?? one.getRootNode().host ?? null;
  const page = Object.assign(document.createElement("div"), {style: "background: Canvas"});
  document.documentElement.append(page);
  const sheet = rgba(getComputedStyle(page).backgroundColor).slice(0, 3);
  page.remove();
  const behind = (one) => {
    if (!one) return sheet;
    const [r, g, b, share] = rgba(getComputedStyle(one).backgroundColor);
    return share === 1 ? [r, g, b] : over([r, g, b], share, behind(parent(one)));
  };
  const shown = (one) => (one ? Number(getComputedStyle(one).opacity) * shown(parent(one)) : 1);
  const all = (root) => [...root.querySelectorAll("*")].flatMap(
    (one) => [one, ...(one.shadowRoot ? all(one.shadowRoot) : [])]);
  const own = (one) => [...one.childNodes].filter((node) => node.nodeType === 3)
    .map((node) => node.data).join("").trim() || one.placeholder || one.value || "";
  const found = [];
  for (const one of all(root)) {
    const text = typeof own(one) === "string" ? own(one) : "";
    if (!text || one.matches("style, script, option, title, :disabled")) continue;
    if (one.closest("[aria-busy]") || !one.checkVisibility({visibilityProperty: true})) continue;
    const style = getComputedStyle(one, one.placeholder && !one.value ? "::placeholder" : null);
    const back = behind(one);
    const [r, g, b, share] = rgba(one instanceof SVGElement ? style.fill : style.color);
    const opacity = shown(one);
    if (!(share * opacity)) continue;
    const [a, c] = [light(over([r, g, b], share * opacity, back)), light(back)];
    const ratio = (Math.max(a, c) + 0.05) / (Math.min(a, c) + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(1)}: ${one.outerHTML.slice(0, 200)}`);
  }
  return found;
}"""


def faint(root: Any) -> list[str]:
    """Return the visible text of a locator whose contrast with its background is below 4.5.

    Text in shadow roots counts; text of disabled controls and of loading elements does not.
    """
    found: list[str] = root.evaluate(_FAINT)
    return found

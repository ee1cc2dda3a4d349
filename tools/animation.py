"""Record the animation of the README: the progress card of a read in a real JupyterLab.

The notebook is generated here and runs against the embedded service over a simulated slow network,
so that the progress is visible. Each frame is a screenshot, shown until the next frame was taken.

    python tools/animation.py [FILE]
"""

from __future__ import annotations

import io
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from _service import service_environment
from lab_page import open_notebook, wait_cells
from PIL import Image, ImageChops
from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # benchmarks/ is not an installed package


from benchmarks._slow_line import slow_line  # noqa: E402

FILE = ROOT / "docs" / "images" / "read.gif"
CELLS = (
    "%load_ext odps_nb\n%odps connect",
    "%odps read orders -c id,customer,amount,quantity,status -o orders",
    "orders.groupby('status').quantity.agg(['size', 'sum', 'mean']).round(2)",
)
WIDTH, HEIGHT = 900, 780
REST = 4000  # milliseconds for which the last frame is shown
ROUND_TRIP, SPEED = 0.04, 1_500_000  # seconds; bytes per second on each connection
PLACE = """() => {
  const cells = [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')];
  const first = cells[1].getBoundingClientRect(), last = cells[2].getBoundingClientRect();
  return [first.left, first.top, first.right, last.bottom];
}"""
RUN = """(index) => {
  const book = window.jupyterapp.shell.currentWidget.content;
  book.activeCellIndex = index;
  book.deselectAll();
  window.jupyterapp.commands.execute('notebook:run-cell');
}"""


def frames_of(page: Page) -> tuple[list[Image.Image], list[int]]:
    """Run the cells; return the screenshots, each with its duration in milliseconds."""
    page.evaluate(RUN, 0)
    wait_cells(page, lambda state: state["idle"] and state["ran"] == 1, seconds=60)
    frames, times = [], []
    for index in (1, 2):
        page.evaluate(RUN, index)
        while True:
            state = wait_cells(page, lambda state: True, seconds=10)
            if state["errors"]:
                raise SystemExit(f"the animation's notebook fails: {state['errors']}")
            frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
            times.append(time.monotonic())
            if state["idle"] and state["ran"] == index + 1:
                break
    page.wait_for_timeout(1000)  # the final card and the DataFrame are rendered
    frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    left, top, right, bottom = (int(edge) for edge in page.evaluate(PLACE))
    box = (left, top, right, min(bottom + 8, HEIGHT - 30))  # without the status bar
    lasts = [round((after - before) * 1000) for before, after in itertools.pairwise(times)]
    return [frame.crop(box) for frame in frames], [*lasts, 500, REST]


def save(frames: list[Image.Image], times: list[int], file: Path) -> None:
    """Write a GIF; identical consecutive frames are merged into one longer frame."""
    kept, lasts = frames[:1], times[:1]
    for frame, last in zip(frames[1:], times[1:], strict=True):
        if ImageChops.difference(kept[-1], frame).getbbox() is None:
            lasts[-1] += last
        else:
            kept.append(frame)
            lasts.append(last)
    palette = kept[-1].quantize(128)
    flat = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in kept]
    flat[0].save(file, save_all=True, append_images=flat[1:], duration=lasts, loop=0, optimize=True)


def write_notebook(folder: Path) -> Path:
    """Write the notebook to run."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in CELLS],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}},
    )
    path = folder / "read.ipynb"
    path.write_text(json.dumps(notebook))
    return path


def main() -> None:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with tempfile.TemporaryDirectory() as folder, service_environment() as environment:
        ends = [environment[name] for name in ("ODPS_ENDPOINT", "ODPS_TUNNEL_ENDPOINT")]
        with (
            slow_line(ends[0], round_trip=ROUND_TRIP, speed=SPEED) as endpoint,
            slow_line(ends[1], round_trip=ROUND_TRIP, speed=SPEED) as tunnel,
        ):
            slow = {**environment, "ODPS_ENDPOINT": endpoint, "ODPS_TUNNEL_ENDPOINT": tunnel}
            with open_notebook(write_notebook(Path(folder)), env=slow, width=WIDTH) as page:
                page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
                frames, times = frames_of(page)
    save(frames, times, file)
    print(f"  {file}: {len(frames)} pictures, {file.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

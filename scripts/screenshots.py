"""Pictures of a run's page, by a browser that is there already: python scripts/screenshots.py [RUN]

They are small, since they have no more colours than a palette of PNG: a page of text needs no others."""

from __future__ import annotations

import base64
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from playwright.sync_api import ViewportSize, sync_playwright

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE: ViewportSize = {"width": 1280, "height": 800}
# Name, place on the page, light or dark.
PICTURES: tuple[tuple[str, str, Literal["light", "dark"]], ...] = (
    ("tree-light", "", "light"),
    ("tree-dark", "", "dark"),
    ("idea-dark", "#item=d0.n0.i0", "dark"),
)
# The pixels of a picture by the numbers of their colours: the nearest of 256, each of which was the one that those
# before it showed worst, so that a few letters in a colour of their own keep it.
PALETTE = """async (url) => {
  const image = Object.assign(new Image(), { src: url });
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, image.height);
  const counts = new Map();
  const all = Array.from({ length: data.length / 4 }, (_, at) => {
    const colour = (data[4 * at] << 16) | (data[4 * at + 1] << 8) | data[4 * at + 2];
    counts.set(colour, (counts.get(colour) || 0) + 1);
    return colour;
  });
  const parts = (colour) => [colour >> 16, (colour >> 8) & 255, colour & 255];
  const apart = (a, b) => parts(a).reduce((sum, part, at) => sum + (part - parts(b)[at]) ** 2, 0);
  const errors = new Map([...counts].map(([colour, count]) => [colour, count * 3 * 255 ** 2]));
  const colours = [];
  while (colours.length < Math.min(256, counts.size)) {
    const worst = [...errors].reduce((most, each) => (each[1] > most[1] ? each : most))[0];
    colours.push(worst);
    const errorOf = (colour) => counts.get(colour) * apart(colour, worst);
    for (const [colour, error] of errors) errors.set(colour, Math.min(error, errorOf(colour)));
  }
  const nearest = (colour) =>
    colours.reduce((best, each, at) => (apart(each, colour) < apart(colours[best], colour) ? at : best), 0);
  const numbers = new Map([...counts.keys()].map((colour) => [colour, nearest(colour)]));
  const pixels = btoa(all.map((colour) => String.fromCharCode(numbers.get(colour))).join(""));
  return { width: image.width, height: image.height, colours, pixels };
}"""


def main(run: str) -> None:
    browser_path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser_path is None:
        sys.exit(f"none of these is there: {', '.join(BROWSERS)}; on Debian and Ubuntu: apt install chromium")
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, sync_playwright() as driver:
        report = Path(folder) / "report.html"
        subprocess.run([sys.executable, "-m", "pipeline", "report", run, "--out", str(report)], check=True)
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        for name, place, theme in PICTURES:
            context = browser.new_context(viewport=SIZE, color_scheme=theme, timezone_id="UTC")
            page = context.new_page()
            page.goto(f"{report.as_uri()}{place}")
            page.wait_for_selector("html[data-ready]")
            page.wait_for_selector("#drawer .card" if place else "#blocks svg", state="attached")
            url = f"data:image/png;base64,{base64.b64encode(page.screenshot()).decode()}"
            page.goto("about:blank")
            picture = IMAGES / f"{name}.png"
            picture.write_bytes(palette_png(page.evaluate(PALETTE, url)))
            print(f"{picture.relative_to(IMAGES.parent.parent)}: {picture.stat().st_size / 1000:.0f} kB")
            context.close()
        browser.close()


def palette_png(picture: dict[str, Any]) -> bytes:
    """A PNG of what PALETTE gives."""
    width, height, pixels = picture["width"], picture["height"], base64.b64decode(picture["pixels"])
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, width * height, width))
    colours = b"".join(colour.to_bytes(3, "big") for colour in picture["colours"])
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", colours), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(png_chunk, parts))


def png_chunk(part: tuple[bytes, bytes]) -> bytes:
    name, content = part
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["momentum"]))

"""Pages read as a browser would: which tags they have, what they say; and in a real browser where there is one."""

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Seen(HTMLParser):
    """The tags that a browser would find, those that are open, and what stands between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def pictures(text: str) -> list[ElementTree.Element]:
    """All that are drawn in a page; each has to be XML."""
    return [ElementTree.fromstring(f"<svg{part.partition('</svg>')[0]}</svg>") for part in text.split("<svg")[1:]]


def run_in_browser(page: str, program: str, folder: Path) -> str:
    """What the program, once the page stands there, has written as its title."""
    assert CHROMIUM
    file = folder / "page.html"
    file.write_text(f"{page}<script>document.title = JSON.stringify((() => {{ {program} }})())</script>")
    words = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    command = [CHROMIUM, *words, "--window-size=1200,900", file.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return ended.stdout.partition("<title>")[2].partition("</title>")[0]

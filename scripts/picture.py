"""Takes the picture of a page for docs/images, in Debian's Chromium.

    picture.py PAGE.html PICTURE.png [WIDTH [HEIGHT [HEADING]]]

WIDTH is that of the window (1280); HEIGHT cuts the picture, which is of the whole page without it.
It starts at the page's top, or at the heading of this text.
"""

import contextlib
import json
import pathlib
import sys
import tempfile

from test_dashboard import Browser

# A little above the heading, which would else touch the picture's edge.
TOP = """(() => {
    const heading = [...document.querySelectorAll('h2')].find((h) => h.textContent === %s);
    return Math.max(0, Math.floor(heading.getBoundingClientRect().top + window.scrollY) - 12);
})()"""


def main(page, picture, width="1280", height=None, heading=None):
    page = pathlib.Path(page).resolve().as_uri()
    with tempfile.TemporaryDirectory(prefix="tierwise-picture-") as profile:
        with contextlib.closing(Browser(profile)) as browser:
            browser.call("Page.navigate", url=page)
            there = f"document.readyState === 'complete' && location.href === '{page}'"
            browser.wait(there, f"{page} is there")
            browser.inspect(int(width), "light")
            top = browser.evaluate(TOP % json.dumps(heading)) if heading else 0
            tall = browser.evaluate("document.documentElement.scrollHeight")
            tall = int(height) if height else tall - top
            # A window as tall as the picture: beyond the window nothing would be drawn.
            browser.call(
                "Emulation.setDeviceMetricsOverride",
                width=int(width),
                height=top + tall,
                deviceScaleFactor=1,
                mobile=False,
            )
            shown = {"x": 0, "y": top, "width": int(width), "height": tall, "scale": 1}
            browser.picture(pathlib.Path(picture), clip=shown)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Takes the picture of a page for docs/images, in Debian's Chromium.

    picture.py PAGE.html PICTURE.png [WIDTH [HEIGHT]]

WIDTH is that of the window (1280); HEIGHT cuts the picture, which is of the whole page without it.
"""

import contextlib
import pathlib
import sys
import tempfile

from test_dashboard import Browser


def main(page, picture, width="1280", height=None):
    page = pathlib.Path(page).resolve().as_uri()
    with tempfile.TemporaryDirectory(prefix="tierwise-picture-") as profile:
        with contextlib.closing(Browser(profile)) as browser:
            browser.call("Page.navigate", url=page)
            there = f"document.readyState === 'complete' && location.href === '{page}'"
            browser.wait(there, f"{page} is there")
            browser.inspect(int(width), "light")
            tall = browser.evaluate("document.documentElement.scrollHeight")
            tall = int(height) if height else tall
            # A window as tall as the picture: beyond the window nothing would be drawn.
            browser.call(
                "Emulation.setDeviceMetricsOverride",
                width=int(width),
                height=tall,
                deviceScaleFactor=1,
                mobile=False,
            )
            shown = {"x": 0, "y": 0, "width": int(width), "height": tall, "scale": 1}
            browser.picture(pathlib.Path(picture), clip=shown)


if __name__ == "__main__":
    main(*sys.argv[1:])

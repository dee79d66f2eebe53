"""Tests the dashboard in Debian's Chromium: everything is shown, the console is silent, and the
page survives the daemon's restart.

The test drives the browser over two pipes (Chrome DevTools Protocol), so it needs only Python's own
library.

    test_dashboard.py PROGRAM [PICTURES]

PROGRAM is the example `dashboard`, PICTURES a directory for screenshots.
"""

import base64
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

# Time limit so that a test that hangs fails; the page loads in a second or two.
PATIENCE_S = 60
# Pixels of a telephone, a window beside another, and a wide screen.
WIDTHS = (400, 1000, 1600)
TENANTS = ("shop", "search-with-a-rather-long-name.slice/leaf@17.service", "batch", "late")


class Browser:
    """Chromium with one page."""

    def __init__(self, profile):
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def as_three_and_four():
            # Chromium reads commands from descriptor 3 and answers on 4. Duplicates are made first,
            # because one of them may already be 3 or 4.
            commands, answers = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self.process = subprocess.Popen(
            [
                "chromium",
                "--headless",
                "--no-sandbox",
                "--remote-debugging-pipe",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--no-first-run",
                "--disable-background-networking",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            preexec_fn=as_three_and_four,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.incoming, self.outgoing = ours_in, ours_out
        self.unread, self.number, self.session, self.complaints = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Sends a command and waits for its answer; the console's complaints meanwhile are
        stored."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.outgoing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(method)
            self.listen(answer)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self, method):
        while b"\0" not in self.unread:
            if not select.select([self.incoming], [], [], PATIENCE_S)[0]:
                raise AssertionError(f"{method}: Chromium did not answer in {PATIENCE_S} s")
            part = os.read(self.incoming, 1 << 16)
            if not part:
                raise AssertionError(f"{method}: Chromium has ended")
            self.unread += part
        text, self.unread = self.unread.split(b"\0", 1)
        return json.loads(text)

    def listen(self, event):
        what = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(what["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if what["type"] in ("error", "warning", "assert"):
                self.complaints.append(json.dumps(what["args"]))
            case "Log.entryAdded" if what["entry"]["level"] in ("error", "warning"):
                self.complaints.append(f"{what['entry']['text']} {what['entry'].get('url', '')}")

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression, why):
        deadline = time.monotonic() + PATIENCE_S
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise AssertionError(f"{why}: not so after {PATIENCE_S} s ({expression})")
            time.sleep(0.1)

    def inspect(self, width, scheme):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def picture(self, file, **cut):
        shot = {"format": "png", "captureBeyondViewport": True, **cut}
        data = self.call("Page.captureScreenshot", **shot)["data"]
        file.write_bytes(base64.b64decode(data))

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE_S)


class Daemon:
    """The example that serves artificial figures, with twenty artificial seconds per real
    second."""

    def __init__(self, program, listen="127.0.0.1:0"):
        self.process = subprocess.Popen([program, listen, "50"], stdout=subprocess.PIPE, text=True)
        self.page = self.process.stdout.readline().strip()
        if not self.page.startswith("http://127.0.0.1:"):
            raise AssertionError(f"{program} does not serve: it prints {self.page!r}")
        self.listen = re.search(r"//(.*)/", self.page)[1]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def same(found, wanted, what):
    if found != wanted:
        raise AssertionError(f"{what}: found {found!r}, wanted {wanted!r}")


def holds(text, part, what):
    if part not in text:
        raise AssertionError(f"{what}: {part!r} is not in {text!r}")


def everything_is_shown(browser):
    browser.wait("document.querySelectorAll('.tenant').length === 4", "all tenants are shown")
    names = browser.evaluate(
        "[...document.querySelectorAll('.tenant h3')].map((name) => name.textContent)"
    )
    same(names, list(TENANTS), "the tenants' names")
    body = browser.evaluate("document.body.innerText")
    for part in (
        "manages",
        "policy tierwise",
        "monitors accesses with damon-vaddr",
        "uses less than its floor",
        "✗ missed",
        "✓ met",
        "floor 16 GiB · share 24 GiB · cap 32 GiB",
        "no live process",
        "1,264 thrash events",
        "thrash control: 1,264 blocks",
        "floor 0 B, cap 20 GiB, promotes at 25 %",
        "of 1 % allowed",
        "14 MiB",
        # Text that must not be read as markup.
        "pid 4711 <defunct> is gone",
    ):
        holds(body, part, "the page")
    same(browser.evaluate("document.querySelectorAll('#decisions li').length"), 4, "decisions")
    same(
        browser.evaluate("document.querySelectorAll('defunct').length"), 0, "elements made of text"
    )


def bars_say_what_they_show(browser):
    bars = browser.evaluate("""[...document.querySelectorAll('[role=meter]')].map((bar) => ({
        label: bar.ariaLabel,
        words: bar.ariaValueText,
        now: Number(bar.ariaValueNow),
        most: Number(bar.ariaValueMax),
        part: bar.querySelector('.fill').getBoundingClientRect().width
            / bar.getBoundingClientRect().width,
    }))""")
    same(len(bars), 2 + 2 * len(TENANTS), "bars: one a tier, and one a tenant and tier")
    for bar in bars:
        # An empty bar has a pixel, so that it is visible.
        if abs(bar["part"] - bar["now"] / bar["most"]) > 0.01 or not bar["words"]:
            raise AssertionError(f"a bar does not show its figure: {bar}")
    same(bars[2]["label"], "shop, DRAM tier", "the first tenant's first bar")
    # The scale ends at the most that any tenant has or may have: 32 GiB of DRAM, so the floor of 16
    # GiB is in the middle.
    mark = browser.evaluate("document.querySelector('.tenant .mark.floor').style.left")
    same(mark, "50%", "the place of the first tenant's floor")


def charts_move(browser):
    count = "document.querySelector('#moves polyline').getAttribute('points').split(' ').length"
    browser.wait(f"{count} > 10", "the chart of all moves grows")
    label = browser.evaluate("document.querySelector('#moves svg').getAttribute('aria-label')")
    if not re.search(r"now [1-9][\d.]* promotions and [1-9][\d.]* demotions a second", label):
        raise AssertionError(f"the chart has no rates: {label}")


def it_fits_every_width(browser, pictures):
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            browser.inspect(width, scheme)
            needed = browser.evaluate("document.documentElement.scrollWidth")
            if needed > width:
                raise AssertionError(f"the page is {needed} pixels wide in a window of {width}")
            if pictures:
                browser.picture(pictures / f"dashboard-{width}-{scheme}.png")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = browser.evaluate(ground)
    browser.inspect(WIDTHS[-1], "light")
    if browser.evaluate(ground) == dark:
        raise AssertionError("the page has the same colours in the dark scheme")


def it_says_when_it_is_cut_off(browser, daemon, program, pictures):
    """Checks that the page detects the daemon's end and its restart at the same address."""
    same(browser.complaints, [], "complaints in the console")
    offline = "document.getElementById('offline')"
    same(browser.evaluate(f"{offline}.hidden"), True, "the banner is hidden")
    daemon.close()
    browser.wait(f"!{offline}.hidden", "a banner says that the daemon is gone")
    holds(browser.evaluate(f"{offline}.innerText"), "No connection to tierwised", "the banner")
    if pictures:
        browser.inspect(WIDTHS[0], "light")
        browser.picture(pictures / "dashboard-offline.png")
    with contextlib.closing(Daemon(program, daemon.listen)):
        browser.wait(f"{offline}.hidden", "the page finds the daemon again")
        everything_is_shown(browser)
    # The console may report only the refused connections meanwhile.
    others = [printed for printed in browser.complaints if "/api/v1/events" not in printed]
    same(others, [], "complaints in the console after the restart")


def main(program, pictures=None):
    pictures = pictures and pathlib.Path(pictures)
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    profile = tempfile.mkdtemp(prefix="tierwise-dashboard-")
    try:
        with (
            contextlib.closing(Daemon(program)) as daemon,
            contextlib.closing(Browser(profile)) as browser,
        ):
            browser.call("Page.navigate", url=daemon.page)
            everything_is_shown(browser)
            bars_say_what_they_show(browser)
            charts_move(browser)
            it_fits_every_width(browser, pictures)
            it_says_when_it_is_cut_off(browser, daemon, program, pictures)
    finally:
        shutil.rmtree(profile, ignore_errors=True)
    print("test-dashboard: all is shown as it should be")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except AssertionError as failed:
        sys.exit(f"test-dashboard: {failed}")

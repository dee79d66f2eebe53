"""Tests the pages of `compare`, `advise` and `plan` in Debian's Chromium: no page scrolls
sideways, and the winner is visible.

    test_report.py PROGRAM [PICTURES]

PROGRAM is the command `tierwise`, PICTURES a directory for screenshots.
"""

import contextlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

from test_dashboard import Browser, same

# Pixels of a telephone and a laptop.
WIDTHS = (390, 1280)
# Names of short scenarios, long and short ones.
NAMES = ("a-scenario-with-a-rather-long-name", "b", "two-tenants")
SCENARIO = """
name = "{name}"
summary = "A small skewed program beside another on a machine with a quarter of their memory fast"
[machine]
preset = "dram-cxl"
fast_share = 0.25
"""
WORKLOAD = """
[[workload]]
name = "{name}"
measure_from = "run"
dilation = 50
[workload.generator]
pattern = "zipf"
footprint = "1600KiB"
accesses_per_window = 2000
windows = 20
"""

PLAN = """
currency = "EUR"
step = "1MiB"
policies = ["static", "tierwise"]
[limits]
slowdown = 1.3
[[module]]
name = "a-module-of-dram-with-a-long-name"
kind = "dram"
capacity = "1MiB"
load_ns = 73
read_gbps = 30
price = 50
[[module]]
name = "c4"
kind = "cxl"
capacity = "4MiB"
load_ns = 202
read_gbps = 15
price = 40
[[machine]]
name = "a-machine-with-a-rather-long-name"
price = 1000
dram_slots = 4
cxl_slots = 1
[[program]]
name = "a-program-with-a-rather-long-name"
scenario = "b.toml"
count = 2
[[program]]
name = "web"
scenario = "b.toml"
"""


def plan(directory):
    file = directory / "plan.toml"
    file.write_text(PLAN)
    return str(file)


def scenario(directory, name):
    file = directory / f"{name}.toml"
    tenants = (
        ["web"] if name == "b" else [f"a-tenant-with-a-rather-long-name-{i}" for i in range(4)]
    )
    file.write_text(
        SCENARIO.format(name=name) + "".join(WORKLOAD.format(name=tenant) for tenant in tenants)
    )
    return str(file)


def pages(program, directory):
    """Writes the HTML files, and returns them by the commands that wrote them."""
    files = [scenario(directory, name) for name in NAMES]
    made = {
        "compare-several": ["compare", *files],
        "compare-one": ["compare", files[0]],
        "advise": ["advise", files[0], "--points", "3"],
        "plan": ["plan", plan(directory), "--points", "3", "--repeats", "2"],
    }
    for name, arguments in made.items():
        page = directory / f"{name}.html"
        subprocess.run(
            [program, *arguments, "--html", str(page)],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        yield name, page


def it_fits(browser, name, pictures):
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            browser.inspect(width, scheme)
            needed = browser.evaluate("document.documentElement.scrollWidth")
            if needed > width:
                raise AssertionError(
                    f"{name}: the page is {needed} pixels wide in a window of {width}"
                )
            if pictures:
                browser.picture(pictures / f"{name}-{width}-{scheme}.png")


def the_winner_is_in_sight(browser):
    """Checks that the best policy is in the first column, which is entirely within the window."""
    best = browser.evaluate(
        "document.querySelector('p b').innerText.match(/scenarios (\\S+) served best/)[1]"
    )
    for width in WIDTHS:
        browser.inspect(width, "light")
        column = browser.evaluate("""(() => {
            const head = document.querySelector('.matrix th:nth-child(2)');
            return {name: head.innerText, right: Math.ceil(head.getBoundingClientRect().right)};
        })()""")
        same(column["name"], best, "the first policy of the matrix")
        if column["right"] > width:
            raise AssertionError(f"the winner ends at {column['right']} in a window of {width}")
    # On a laptop the whole matrix is visible.
    browser.inspect(1280, "light")
    hidden = browser.evaluate(
        "(() => { const m = document.querySelector('.wide'); "
        "return m.scrollWidth - m.clientWidth; })()"
    )
    same(hidden, 0, "columns of the matrix beyond a window of 1280")


def main(program, pictures=None):
    pictures = pictures and pathlib.Path(pictures)
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tierwise-report-"))
    try:
        with contextlib.closing(Browser(str(directory / "profile"))) as browser:
            for name, page in pages(program, directory):
                browser.call("Page.navigate", url=page.as_uri())
                there = f"document.readyState === 'complete' && location.href === '{page.as_uri()}'"
                browser.wait(there, f"{name} is there")
                it_fits(browser, name, pictures)
                if name == "compare-several":
                    the_winner_is_in_sight(browser)
                same(browser.complaints, [], f"complaints in the console about {name}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print("test-report: every page fits its window")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except AssertionError as failed:
        sys.exit(f"test-report: {failed}")

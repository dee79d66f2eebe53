"""Tests the pages of `compare`, `advise` and `plan` in Debian's Chromium: no page scrolls
sideways, text in plots is as large as it is drawn and within them, also on paper, and the winner is
visible.

    test_report.py PROGRAM [PICTURES]

PROGRAM is the command `tierwise`, PICTURES a directory for screenshots and pages to print.
"""

import base64
import contextlib
import json
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
        if plots_are_readable(browser, f"{name} at {width}", READABLE) == 0 and name == "plan":
            raise AssertionError(f"{name}: found no plot in a window of {width}")


#: The least size of text in a plot, of the size that it is drawn in: a tenth less is still read.
READABLE = 0.9
#: On paper: of 13 pixels, 9.
READABLE_ON_PAPER = 0.7

PLOTS = """(() => {
    const seen = [...document.querySelectorAll('svg')].filter((svg) => svg.clientWidth > 0);
    const cut = (svg) => [...svg.querySelectorAll('text')].filter((text) => {
        const [its, all] = [text.getBoundingClientRect(), svg.getBoundingClientRect()];
        return its.right > all.right + 1 || its.left < all.left - 1;
    });
    return JSON.stringify({
        scales: seen.map((svg) => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width),
        cut: seen.flatMap(cut).map((text) => text.textContent),
    });
})()"""


def plots_are_readable(browser, name, least):
    found = json.loads(browser.evaluate(PLOTS))
    same(found["cut"], [], f"labels of {name} that end beyond their plot")
    if found["scales"] and min(found["scales"]) < least:
        raise AssertionError(
            f"{name}: text is {min(found['scales']):.2f} of its size; allowed: {least}"
        )
    return len(found["scales"])


def paper_is_readable(browser, name, pictures):
    # The space of A4 between the margins of a browser, in its pixels.
    browser.inspect(718, "light")
    browser.call("Emulation.setEmulatedMedia", media="print")
    plots_are_readable(browser, f"{name} on paper", READABLE_ON_PAPER)
    if pictures:
        pdf = browser.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"]
        (pictures / f"{name}.pdf").write_bytes(base64.b64decode(pdf))
    browser.call("Emulation.setEmulatedMedia", media="screen")


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
                paper_is_readable(browser, name, pictures)
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

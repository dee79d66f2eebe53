"""The heat map of hotness over time, as one HTML file or as a picture."""

import html
import math
import os
import zlib
from collections.abc import Callable
from pathlib import Path

from . import cold_report
from .coldness import Coldness
from .contents import Contents
from .errors import NotTracking, Unavailable
from .history import BINS, DRAWN_BINS, History
from .stats import Stats

#: The formats of cold memory alone, by the end of a file's name.
COLD_FORMATS: dict[str, Callable[[Coldness], str]] = {
    ".txt": cold_report.text,
    ".json": cold_report.to_json,
    ".folded": cold_report.folded,
}
#: Limit of columns of the drawing, in which time runs from left to right.
MAX_COLUMNS = 160
CELL_W, CELL_H = 6, 4
#: The width for any number of columns. The labels of both ends and the axis's name fit beside each
#: other.
DRAWN_W = MAX_COLUMNS * CELL_W
LEFT, TOP, BOTTOM = 64, 10, 44
#: The width of the strip of types beside the map, and its distance.
STRIP_W, STRIP_GAP = 14, 8
#: Types in the table, the hottest first: as many as fit on a screen.
LISTED_TYPES = 20

#: Colours of rising hotness: dark to light, so that they are distinct in grey too (anchors of
#: matplotlib's "magma", public domain).
ANCHORS = (
    (0, 0, 4),
    (59, 15, 112),
    (140, 41, 129),
    (222, 73, 104),
    (254, 159, 109),
    (252, 253, 191),
)


def report(
    path: str | os.PathLike[str],
    history: History,
    stats: Stats,
    contents: Callable[[], Contents],
    coldness: Callable[[], Coldness],
) -> None:
    """Writes a report into a file; the suffix of its name sets the format. `contents` finds the
    objects of `DRAWN_BINS` parts, for HTML, and `coldness` cold memory."""
    file = Path(path)
    if file.suffix not in (".html", ".png", *COLD_FORMATS):
        allowed = ", ".join((".html", ".png", *COLD_FORMATS))
        raise ValueError(f"{file} ends in {file.suffix!r}; allowed: {allowed}")
    if not history.rows:
        raise NotTracking(
            "there is nothing to draw yet: a row is recorded every four sampling intervals in "
            "which pages are known"
        )
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        if file.suffix == ".png":
            _png(beside, history, stats)
        elif file.suffix == ".html":
            beside.write_text(page(history, stats, contents(), coldness()), encoding="utf-8")
        else:
            beside.write_text(COLD_FORMATS[file.suffix](coldness()), encoding="utf-8")
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def grid(history: History) -> list[list[float]]:
    """Returns columns of time, each with bins from low addresses to high; values are 0 to 1 on a
    logarithmic scale."""
    rows = history.rows
    step = -(-len(rows) // MAX_COLUMNS)
    columns = []
    for start in range(0, len(rows), step):
        together = rows[start : start + step]
        heat = [sum(row.heat[bin] for row in together) / len(together) for bin in range(BINS)]
        columns.append([(heat[2 * bin] + heat[2 * bin + 1]) / 2 for bin in range(DRAWN_BINS)])
    most = max(max(column) for column in columns) or 1.0
    return [
        [math.log1p(max(0.0, heat)) / math.log1p(most) for heat in column] for column in columns
    ]


def colour(value: float) -> str:
    """Returns the colour of a hotness from 0 to 1.

    >>> colour(0.0), colour(1.0)
    ('#000004', '#fcfdbf')
    """
    place = min(max(value, 0.0), 1.0) * (len(ANCHORS) - 1)
    low = min(int(place), len(ANCHORS) - 2)
    part = place - low
    mixed = (
        round(one + (other - one) * part)
        for one, other in zip(ANCHORS[low], ANCHORS[low + 1], strict=True)
    )
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def page(history: History, stats: Stats, contents: Contents, coldness: Coldness) -> str:
    """Returns the HTML, which needs no other file."""
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
        for name, value in facts(stats)
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Hotness over time</title>"
        "<style>"
        "body{font:14px/1.5 system-ui,sans-serif;margin:2em;max-width:70em;"
        "color:#222;background:#fff}"
        "th{text-align:left;padding-right:2em;font-weight:normal;color:#555}"
        "thead th{border-bottom:1px solid #ccc}"
        "td.n{text-align:right;padding-right:2em}"
        "svg{max-width:100%;height:auto}"
        "text{font-size:12px;fill:#444}"
        f"{cold_report.STYLE}"
        "</style>"
        "<h1>Hotness over time</h1>"
        "<p>Each column is a moment; from bottom to top are the program's pages by address, "
        "in equal parts. "
        "Light is hot, on a logarithmic scale. The strip on the right has a colour for each type "
        "that takes most of the bytes there; "
        "point at it for the name.</p>"
        f"{svg(history, contents)}{cold_report.page_parts(coldness)}{types_table(contents)}"
        f"<h2>The run</h2><table>{rows}</table></html>\n"
    )


def svg(history: History, contents: Contents) -> str:
    """Returns the drawing. Equal neighbours of a column are one rectangle."""
    columns = grid(history)
    width, height = LEFT + DRAWN_W + STRIP_GAP + STRIP_W + 10, TOP + CELL_H * DRAWN_BINS + BOTTOM
    parts = [
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="heat map" shape-rendering="crispEdges">'
    ]
    edges = [LEFT + DRAWN_W * index // len(columns) for index in range(len(columns) + 1)]
    for index, column in enumerate(columns):
        start = 0
        for bin in range(1, DRAWN_BINS + 1):
            if bin == DRAWN_BINS or colour(column[bin]) != colour(column[start]):
                y = TOP + CELL_H * (DRAWN_BINS - bin)
                parts.append(
                    f'<rect x="{edges[index]}" y="{y}" width="{edges[index + 1] - edges[index]}" '
                    f'height="{CELL_H * (bin - start)}" fill="{colour(column[start])}"/>'
                )
                start = bin
    parts.extend(_strip(contents))
    parts.append(_axes(history))
    return "".join([*parts, "</svg>"])


def hue(name: str) -> str:
    """Returns the colour of a type, which is the same in every report."""
    return f"hsl({zlib.crc32(name.encode()) % 360} 55% 55%)"


def _strip(contents: Contents) -> list[str]:
    """Draws the type with the most bytes in each part; equal neighbours are one rectangle."""
    names = [contents.largest(part) for part in range(DRAWN_BINS)]
    left, drawn, start = LEFT + DRAWN_W + STRIP_GAP, [], 0
    for part in range(1, DRAWN_BINS + 1):
        if part < DRAWN_BINS and names[part] == names[start]:
            continue
        if (name := names[start]) is not None:
            y, height = TOP + CELL_H * (DRAWN_BINS - part), CELL_H * (part - start)
            drawn.append(
                f'<rect x="{left}" y="{y}" width="{STRIP_W}" height="{height}" '
                f'fill="{hue(name)}"><title>{html.escape(name)}</title></rect>'
            )
        start = part
    return drawn


def types_table(contents: Contents) -> str:
    """Returns the table of types, ordered by the hotness of their pages."""
    found = sorted(contents.types.values(), key=lambda use: use.heat, reverse=True)
    sampled = "" if contents.exact else "; there are many, and a part of them stands for all"
    rows = "".join(
        f'<tr><th><span style="color:{hue(use.name)}">&#9632;</span> '
        f"{html.escape(use.name)}</th><td class=n>{use.objects:,}</td>"
        f"<td class=n>{use.size / 1e6:.2f}</td><td class=n>{use.hotness:.2f}</td></tr>"
        for use in found[:LISTED_TYPES]
        if use.size
    )
    return (
        "<h2>Types in the tracked pages</h2>"
        "<p>By bytes times the hotness of their page. Objects are those that local variables and "
        f"the collector reach{sampled}.</p>"
        "<table><thead><tr><th>type</th><th>objects</th><th>MB in tracked pages</th>"
        "<th>mean hotness</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _axes(history: History) -> str:
    bottom, right = TOP + CELL_H * DRAWN_BINS, LEFT + DRAWN_W
    last = history.rows[-1]
    megabytes = last.pages * 4096 / 1e6
    return (
        f'<text x="{LEFT}" y="{bottom + 18}">{history.rows[0].at_s:.1f} s</text>'
        f'<text x="{right}" y="{bottom + 18}" text-anchor="end">{last.at_s:.1f} s</text>'
        f'<text x="{(LEFT + right) / 2}" y="{bottom + 36}" text-anchor="middle">time</text>'
        f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">low</text>'
        f'<text x="{LEFT - 6}" y="{TOP + 10}" text-anchor="end">high</text>'
        f'<text transform="translate(14 {(TOP + bottom) / 2}) rotate(-90)" '
        f'text-anchor="middle">addresses of {megabytes:.0f} MB</text>'
    )


def facts(stats: Stats) -> list[tuple[str, str]]:
    """Returns the names and values below the drawing."""
    return [
        ("signal", stats.signal),
        ("sampling phases", f"{stats.intervals}, and {stats.rested} rested"),
        ("pages tracked", f"{stats.pages_tracked:,} ({stats.pages_tracked * 4096 / 1e6:.0f} MB)"),
        ("pages hot", f"{stats.pages_hot:,}"),
        ("promoted, demoted, failed", f"{stats.promoted:,}, {stats.demoted:,}, {stats.failed:,}"),
        ("overhead", f"{stats.overhead:.2%} of CPU time"),
        ("memory of tracking", f"{stats.memory_bytes / 1e6:.1f} MB"),
    ]


def _png(file: Path, history: History, stats: Stats) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Unavailable(
            "a PNG needs matplotlib: pip install tierwise-emt[png]; or write .html"
        ) from error
    columns = grid(history)
    figure = Figure(figsize=(9, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    first_s, last = history.rows[0].at_s, history.rows[-1]
    picture = axes.imshow(
        [[column[bin] for column in columns] for bin in range(DRAWN_BINS)],
        aspect="auto",
        origin="lower",
        cmap="magma",
        vmin=0,
        vmax=1,
        interpolation="nearest",
        extent=(first_s, max(last.at_s, first_s + 1e-3), 0, last.pages * 4096 / 1e6),
    )
    axes.set_xlabel("time (s)")
    axes.set_ylabel("pages by address (MB)")
    axes.set_title(f"Hotness over time ({stats.signal}, overhead {stats.overhead:.2%})")
    figure.colorbar(picture, label="hotness (logarithmic, of the most)")
    figure.savefig(file, format="png", dpi=120)

"""Reports of cold memory: text for a terminal, JSON, folded stacks, and parts of an HTML page."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable

from .coldness import UNTRACED, Coldness, Use

#: Rows of a table, those with most cold bytes first: as many as fit on a screen.
ROWS = 15
#: The largest cold parts, in words, before the tables.
HEADLINES = 5
#: The least share of the cold bytes that has a box in the flame graph: two pixels of a screen.
LEAST_SHARE = 0.002
#: Marks memory that may have been read.
MARK = "*"
#: The version of the JSON's form.
FORMAT = 1


def human_bytes(size: float) -> str:
    """Returns a number of bytes in words.

    >>> human_bytes(512), human_bytes(2.25 * 2**30)
    ('512 B', '2.2 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"


def human_time(seconds: float) -> str:
    """Returns a time in words.

    >>> human_time(8), human_time(600), human_time(7300)
    ('8 s', '10 min', '2.0 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def sorted_uses(uses: dict[str, Use]) -> list[Use]:
    """Returns the uses with memory, those with most cold bytes first."""
    with_memory = (use for use in uses.values() if use.size)
    return sorted(with_memory, key=lambda use: (-use.cold, -use.size, use.name))


def summary(found: Coldness) -> str:
    """Returns the first line of a report."""
    share = found.cold / found.tracked if found.tracked else 0.0
    return (
        f"{human_bytes(found.cold)} of {human_bytes(found.tracked)} tracked ({share:.0%}) are "
        f"cold: no use was seen for {human_time(found.cold_after_s)} or longer"
    )


def notes(found: Coldness) -> list[str]:
    """Returns what a reader must know of the figures."""
    texts = [
        f"{found.examined:,} objects were examined. Those found have {human_bytes(found.named)}; "
        "large containers are sampled."
    ]
    if any(not use.reads_seen for use in found.types.values()):
        texts.append(
            f"{MARK} {found.signal} reports writes only, and these are read without one: they were "
            "not written, and may have been read."
        )
    return texts


def headlines(found: Coldness) -> list[str]:
    """Returns the largest cold parts in words."""
    largest = sorted(found.stacks.items(), key=lambda item: (-item[1].cold, item[0]))
    return [
        f"{human_bytes(use.cold)} of {kind} of {owner}"
        f"{'' if site == UNTRACED else f', made in {site}'}, "
        f"{'untouched' if use.reads_seen else 'not written'} for {human_time(use.idle_s)}"
        for (owner, site, kind), use in largest[:HEADLINES]
        if use.cold
    ]


def sections(found: Coldness) -> Iterable[tuple[str, list[Use]]]:
    """Yields the tables with their names."""
    yield "owner", sorted_uses(found.owners)
    yield "allocation site", sorted_uses(found.sites)
    yield "type", sorted_uses(found.types)


def text(found: Coldness) -> str:
    """Returns the report for a terminal."""
    lines = [summary(found), *(f"- {line}" for line in headlines(found)), *notes(found)]
    for name, uses in sections(found):
        lines += ["", f"{'cold':>10} {'hot':>10} {'idle':>8} {'objects':>12}  {name}"]
        lines += [
            f"{human_bytes(use.cold):>10} {human_bytes(use.size - use.cold):>10} "
            f"{human_time(use.idle_s) if use.cold else '':>8} {use.objects:>12,}  "
            f"{use.name}{'' if use.reads_seen else ' ' + MARK}"
            for use in uses[:ROWS]
        ]
    return "\n".join([*lines, ""])


def to_json(found: Coldness) -> str:
    """Returns the report as JSON; sizes are bytes, times seconds."""

    def rows(uses: list[Use]) -> list[dict[str, object]]:
        return [
            {
                "name": use.name,
                "objects": use.objects,
                "cold_bytes": use.cold,
                "hot_bytes": use.size - use.cold,
                "idle_s": use.idle_s,
                "reads_seen": use.reads_seen,
            }
            for use in uses
        ]

    return json.dumps(
        {
            "format": FORMAT,
            "signal": found.signal,
            "tracked_bytes": found.tracked,
            "cold_bytes": found.cold,
            "cold_after_s": found.cold_after_s,
            "examined_objects": found.examined,
            "owners": rows(sorted_uses(found.owners)),
            "sites": rows(sorted_uses(found.sites)),
            "types": rows(sorted_uses(found.types)),
        },
        indent=1,
    )


def folded(found: Coldness) -> str:
    """Returns a line for each stack of owner, site and type, with its cold bytes: the form that
    flame graph programs read."""
    # A semicolon divides the frames, and the last space the number.
    return "".join(
        f"{';'.join(name.replace(';', ',') for name in stack)} {use.cold}\n"
        for stack, use in sorted(found.stacks.items())
        if use.cold
    )


def page_parts(found: Coldness) -> str:
    """Returns the tables and the flame graph as HTML."""
    parts = [f"<h2>Cold memory</h2><p>{html.escape(summary(found))}.</p>"]
    items = "".join(f"<li>{html.escape(line)}</li>" for line in headlines(found))
    parts.append(f"<ul>{items}</ul>")
    parts += [f"<p>{html.escape(note)}</p>" for note in notes(found)]
    parts.append(flame_graph(found))
    for name, uses in sections(found):
        rows = "".join(
            f"<tr><th>{html.escape(use.name)}{'' if use.reads_seen else ' ' + MARK}</th>"
            f"<td class=n>{human_bytes(use.cold)}</td>"
            f"<td class=n>{human_bytes(use.size - use.cold)}</td>"
            f"<td class=n>{human_time(use.idle_s) if use.cold else ''}</td>"
            f"<td class=n>{use.objects:,}</td></tr>"
            for use in uses[:ROWS]
        )
        parts.append(
            f"<table><thead><tr><th>{name}</th><th>cold</th><th>hot</th><th>idle</th>"
            f"<th>objects</th></tr></thead><tbody>{rows}</tbody></table>"
        )
    return "".join(parts)


def flame_graph(found: Coldness) -> str:
    """Returns the cold bytes as rows of boxes: owners above, below each its sites, and below these
    the types. A box is as wide as its bytes."""
    cold: dict[tuple[str, ...], int] = {
        stack: use.cold for stack, use in found.stacks.items() if use.cold
    }
    total = sum(cold.values())
    return f'<div class="flame">{_boxes(cold, total)}</div>' if total else ""


def _boxes(stacks: dict[tuple[str, ...], int], total: int) -> str:
    sums: dict[str, dict[tuple[str, ...], int]] = {}
    for (first, *rest), size in stacks.items():
        below = sums.setdefault(first, {})
        below[tuple(rest)] = below.get(tuple(rest), 0) + size
    boxes = []
    for name, below in sorted(sums.items(), key=lambda item: (-sum(item[1].values()), item[0])):
        size = sum(below.values())
        # Narrower boxes have no place for a name, and would be as many as the objects.
        if size < LEAST_SHARE * total:
            continue
        deeper = {stack: part for stack, part in below.items() if stack}
        escaped = html.escape(name, quote=True)
        boxes.append(
            f'<div style="width:{100 * size / sum(stacks.values()):.3f}%">'
            f'<span title="{escaped}: {human_bytes(size)}">{escaped}</span>'
            f"{'<div class=row>' + _boxes(deeper, total) + '</div>' if deeper else ''}</div>"
        )
    return "".join(boxes)


#: The style of the flame graph; a name that does not fit is cut, and shown when pointed at.
STYLE = (
    ".flame,.flame .row{display:flex;width:100%;margin:0}"
    ".flame{max-width:none;margin:1em 0}"
    ".flame div{min-width:0}"
    ".flame span{display:block;overflow:hidden;white-space:nowrap;text-overflow:ellipsis;"
    "font-size:12px;padding:1px 3px;border:1px solid #fff;background:#9ec9e2;color:#123}"
)

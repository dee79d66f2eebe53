"""Prints the results of run.py as tables in Markdown: `python table.py [RESULTS]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from truth.run import STEPS

COLUMNS = {
    "page best": "page: best",
    "page history": "history",
    "object best": "object: best",
    "object history": "history",
    "site": "site",
    "context": "context",
    "type": "type",
    "size": "size class",
    "generation": "generation",
    "age": "age",
    "born": "at allocation",
    "all": "all",
    "pages by site": "pages by site",
}
SHARES = ("10%", "25%", "50%")


def results(directory: Path) -> dict[str, Any]:
    """Returns each workload's figures, in the order of run.py."""
    files = {name: directory / f"{name}.json" for name in STEPS}
    return {
        name: json.loads(file.read_text("utf-8")) for name, file in files.items() if file.exists()
    }


def row(words: Sequence[str]) -> str:
    """Formats a row of a table."""
    return "| " + " | ".join(words) + " |"


def mean(found: dict[str, Any], share: str) -> list[str]:
    """Formats the mean over the workloads, by column."""
    sums = (sum(one["caught"][share][column] for one in found.values()) for column in COLUMNS)
    return [f"{total / len(found):.2f}" for total in sums]


def catches(found: dict[str, Any], share: str) -> str:
    """Formats the catches with one share of memory fast."""
    lines = [row(["workload", *COLUMNS.values()]), "|---" * (len(COLUMNS) + 1) + "|"]
    for name, figures in found.items():
        caught = figures["caught"][share]
        lines.append(row([name, *(f"{caught[column]:.2f}" for column in COLUMNS)]))
    return "\n".join(lines)


def means(found: dict[str, Any]) -> str:
    """Formats the means with each share of memory fast."""
    lines = [row(["mean, fast", *COLUMNS.values()]), "|---" * (len(COLUMNS) + 1) + "|"]
    return "\n".join([*lines, *(row([share, *mean(found, share)]) for share in SHARES)])


def sizes(found: dict[str, Any]) -> str:
    """Formats what each workload's memory and uses are."""
    lines = [
        row(["workload", "MiB", "blocks", "accesses", "misses", "bytes in small blocks"])[:-1]
        + "| uses of small blocks | of them freed in the window | left out |",
        "|---" * 9 + "|",
    ]
    for name, figures in found.items():
        lines.append(
            row(
                [
                    name,
                    f"{figures['pages'] / 256:.0f}",
                    f"{figures['blocks'] / 1e6:.2f} M",
                    f"{figures['accesses'] / 1e6:.0f} M",
                    f"{figures['misses'] / 1e6:.2f} M",
                    *(
                        f"{figures[part]:.2f}"
                        for part in (
                            "small_blocks_bytes",
                            "small_blocks_uses",
                            "freed_uses",
                            "lost",
                        )
                    ),
                ]
            )
        )
    return "\n".join(lines)


if __name__ == "__main__":
    data = results(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results")
    print(sizes(data))
    print(f"\n{means(data)}")
    for part in SHARES:
        print(f"\n{part} of memory fast:\n\n{catches(data, part)}")

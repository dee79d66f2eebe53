"""A picture of all programs: how far each policy is from all memory fast, beside the kernel's
tiering."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from .gains import KERNEL, NONE, OURS
from .table import BOUND, Run

# Colours that people with colour blindness tell apart (Okabe and Ito), and a shape for each.
STYLES = {
    OURS: ("#0072B2", "o"),
    KERNEL: ("#D55E00", "s"),
    NONE: ("#999999", "D"),
    "damon-migrate": ("#CC79A7", "v"),
    "memtierd-age": ("#009E73", "<"),
    "memtierd-heat": ("#56B4E9", ">"),
    "multi-clock": ("#E69F00", "^"),
    "memtis": ("#000000", "x"),
}
WIDTH_IN = 8.0
# A row of text, with the heading and the axis below.
ROW_IN, FRAME_IN = 0.34, 1.5


def draw(titled: Mapping[str, Mapping[str, Sequence[Run]]], file: Path) -> None:
    """Draws the programs' runs, a panel for each title. A point is the excess of one run: its time
    over all fast, less one. Raises ImportError without matplotlib."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    rows = max(len(programs) for programs in titled.values())
    figure = Figure((WIDTH_IN, ROW_IN * rows + FRAME_IN), layout="constrained")
    FigureCanvasSVG(figure)
    panels = figure.subplots(1, len(titled), sharex=True, squeeze=False)[0]
    for panel, (title, programs) in zip(panels, titled.items(), strict=True):
        _panel(panel, title, excesses(programs))
    handles = {
        text: handle
        for panel in panels
        for handle, text in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))
    figure.savefig(file, format="svg", metadata={"Date": None})


def excesses(programs: Mapping[str, Sequence[Run]]) -> dict[str, dict[str, list[float]]]:
    """Returns each program's excesses by policy, those with the largest gain over the kernel's
    tiering last. It leaves out programs without a run of all fast."""
    found = {}
    for name, runs in programs.items():
        bound = [run.seconds for run in runs if run.policy == BOUND]
        if not bound:
            continue
        of: dict[str, list[float]] = {}
        for run in runs:
            if run.policy in STYLES:
                of.setdefault(run.policy, []).append(run.seconds / fmean(bound) - 1)
        found[name] = of
    return dict(sorted(found.items(), key=lambda item: -_ratio(item[1])))


def _ratio(of: Mapping[str, Sequence[float]]) -> float:
    if OURS not in of or KERNEL not in of:
        return 1.0
    return fmean(of[OURS]) / max(fmean(of[KERNEL]), 1e-9)


def _panel(panel: Any, title: str, programs: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    names = list(programs)
    for policy, (colour, shape) in STYLES.items():
        points = [
            (100 * excess, place)
            for place, name in enumerate(names)
            for excess in programs[name].get(policy, ())
        ]
        if points:
            x, y = zip(*points)
            panel.scatter(x, y, s=28, c=colour, marker=shape, alpha=0.8, label=policy, zorder=3)
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    panel.set_xlim(left=0)
    panel.set_xlabel("% longer than with all memory fast")
    panel.set_title(title)
    panel.grid(axis="both", linewidth=0.4, alpha=0.6)

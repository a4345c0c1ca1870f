"""Shared by the plot_*.py scripts: reads result.json, and nothing else; colours, names, legends, command line.

A script calls main(__doc__, name, draw): draw(plt, case, variants, result) returns a figure, or None where a case has
nothing to draw. Pictures go to OUT/CASE_name.png. Needs matplotlib (Debian: python3-matplotlib).
"""
import argparse
import json
import pathlib
import re
import sys

SCHEMA_VERSION = 1
GIB = 2.0**30
INK, SOFT, LINE = "#22262b", "#5d6570", "#e3e0d9"
GOOD, AMBER, BAD = "#2c7a4b", "#9a6700", "#b3261e"
COLOURS = {
    "forward": "#6fa3dc", "backward": "#2f5d9b", "recompute": "#f0a32f", "optimizer": "#8e6bbf",
    "tensor": "#d4526e", "tensor_recompute": "#a8451c", "pipeline": "#2a9d8f", "data": "#7a9a3a",
    "embedding": "#b9b04a", "global": "#7d8597", "bubble": "#e6e3dc",
}
TITLES = {
    "tensor": "tensor comm", "tensor_recompute": "recomputed comm", "pipeline": "pipeline comm",
    "data": "data comm", "embedding": "embedding comm", "global": "global comm",
}
MEMORY_COLOURS = ["#6fa3dc", "#e8a94c", "#8e6bbf", "#b99bd8", "#4f9d69", "#d4526e", "#2a9d8f", "#9aa2ad", "#6b5b4a"]


def read_result(path):
    """The parsed result; exits with a message when it can't be used."""
    try:
        result = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        sys.exit(f"{path}: {problem}")
    if not isinstance(result, dict) or result.get("schema_version") != SCHEMA_VERSION:
        sys.exit(f"{path}: not a result.json of schema_version {SCHEMA_VERSION}")
    return result


def tidy(axes):
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def category_legend(plt, figure, categories):
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[name]) for name in categories]
    figure.legend(handles, [TITLES.get(name, name) for name in categories], loc="lower center", ncol=6, frameon=False,
                  fontsize=8)


def rows_figure(plt, rows, height=0.34, extra=1.4):
    """One horizontal bar a row, the first on top."""
    figure, axes = plt.subplots(figsize=(12, extra + height * rows))
    return figure, axes


def label_rows(axes, labels, fontsize=8):
    axes.set_yticks(range(len(labels)))
    axes.set_yticklabels(labels, fontsize=fontsize)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="x", labelsize=8)
    tidy(axes)


def duration(seconds):
    """"1.67 s", "312 ms", "43.1 µs"."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        if abs(seconds) >= 0.9995 * size:
            return f"{seconds / size:.3g} {unit}"
    return "0 s"


def main(text, name, draw):
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", help="a result.json")
    parser.add_argument("--out", default=".", help="folder for the pictures (default: here)")
    parser.add_argument("--case", action="append", help="only this case (repeat for more)")
    parser.add_argument("--variant", action="append", help="only this variant (repeat for more)")
    arguments = parser.parse_args()
    result = read_result(arguments.result)
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit("matplotlib is missing; install it (Debian: apt install python3-matplotlib)")
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for case in result["cases"]:
        if arguments.case and case["id"] not in arguments.case:
            continue
        variants = [variant for variant in case["variants"] if variant["step_ps"] > 0
                    and (not arguments.variant or variant["id"] in arguments.variant)]
        figure = draw(plt, case, variants, result) if variants else None
        if figure is None:
            continue
        path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', case['id'])}_{name}.png"
        figure.savefig(path, dpi=110, metadata={"Software": "benchsuite"})
        plt.close(figure)
        print(path)
        drawn += 1
    if drawn == 0:
        sys.exit(f"{name}: nothing to draw in {arguments.result}")

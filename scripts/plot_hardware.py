#!/usr/bin/env python3
"""Draws the curves of a hardware profile with matplotlib.

  benchsuite hardware plot dgx-h100 --rows gemm.json --data curves.json
  scripts/plot_hardware.py curves.json --out plots

Writes NAME.png with all pictures, or one file a picture with --separate. The curves are the program's: nothing of the
model is repeated here. Needs matplotlib (Debian: python3-matplotlib).
"""
import argparse
import json
import math
import pathlib
import re
import sys

SCHEMA_VERSION = 1
COLOURS = ["#6fa3dc", "#e8a94c", "#8e6bbf", "#b99bd8", "#4f9d69", "#d4526e", "#2a9d8f", "#9aa2ad", "#6b5b4a"]


def read_curves(path):
    """The parsed file; exits with a message when it can't be used."""
    try:
        text = sys.stdin.read() if path == "-" else pathlib.Path(path).read_text(encoding="utf-8")
        curves = json.loads(text)
    except (OSError, ValueError) as problem:
        sys.exit(f"plot_hardware: {path}: {problem}")
    if not isinstance(curves, dict) or curves.get("kind") != "hardware curves" or \
            curves.get("schema_version") != SCHEMA_VERSION:
        sys.exit(f"plot_hardware: {path}: not what `benchsuite hardware plot NAME --data FILE` writes")
    return curves


def bytes_text(value):
    for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB")):
        if value < 1024 ** (power + 1):
            return f"{value / 1024 ** power:.3g} {unit}"
    return f"{value:.2g} B"


def draw(axes, chart):
    for i, curve in enumerate(chart["curves"]):
        points = [(x, y) for x, y in curve["points"] if x > 0 and (y > 0 or not chart["log_y"])]
        if not points:
            continue
        xs, ys = zip(*points)
        style = {"marker": ".", "linestyle": "none", "markersize": 3, "alpha": 0.6} if curve["dots"] else {}
        axes.plot(xs, ys, color=COLOURS[i % len(COLOURS)], label=curve["name"], **style)
    axes.set_xscale("log", base=2)
    if chart["log_y"]:
        axes.set_yscale("log", base=2)
    else:
        axes.set_ylim(bottom=0)
    if chart["x_bytes"]:
        axes.xaxis.set_major_formatter(lambda value, _: bytes_text(value))
    axes.set_xlabel(chart["x_title"])
    axes.set_ylabel(chart["y_title"])
    axes.set_title(chart["title"] + (f"\n{chart['note']}" if chart["note"] else ""), fontsize=9, loc="left")
    axes.grid(True, color="#e3e0d9", linewidth=0.7)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if len(chart["curves"]) <= 12:
        axes.legend(frameon=False, fontsize=7)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curves", metavar="FILE", help="curves of benchsuite hardware plot --data; - is standard input")
    parser.add_argument("--out", metavar="DIR", type=pathlib.Path, default=pathlib.Path("."),
                        help="folder (default: here)")
    parser.add_argument("--separate", action="store_true", help="one file a picture")
    arguments = parser.parse_args()
    curves = read_curves(arguments.curves)
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit("plot_hardware: matplotlib is missing (Debian: python3-matplotlib)")
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        charts = curves["charts"]
        if arguments.separate:
            for chart in charts:
                figure, axes = plt.subplots(figsize=(6, 3.8))
                draw(axes, chart)
                name = re.sub(r"[^a-z0-9]+", "_", chart["title"].lower()).strip("_")
                path = arguments.out / f"{curves['name']}_{name}.png"
                figure.savefig(path, dpi=140, bbox_inches="tight")
                plt.close(figure)
                print(path)
            return
        columns = min(3, len(charts))
        rows = math.ceil(len(charts) / columns)
        figure, panels = plt.subplots(rows, columns, figsize=(6 * columns, 3.8 * rows), squeeze=False)
        for axes, chart in zip(panels.flat, charts):
            draw(axes, chart)
        for axes in panels.flat[len(charts):]:
            axes.set_visible(False)
        figure.suptitle(f"{curves['name']}: {curves['title']}", x=0.01, ha="left")
        figure.tight_layout()
        path = arguments.out / f"{curves['name']}.png"
        figure.savefig(path, dpi=130)
        print(path)
    except OSError as problem:
        sys.exit(f"plot_hardware: {problem}")


if __name__ == "__main__":
    main()

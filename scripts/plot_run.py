#!/usr/bin/env python3
"""Draws a run from its result.json: timelines, where the step goes, memory by purpose.

  scripts/plot_run.py results/latest/result.json --out plots
  scripts/plot_run.py result.json --variant full_m8 --variant selective_m8

Writes CASE_timeline.png, CASE_breakdown.png and CASE_memory.png. Reads nothing but result.json;
needs matplotlib (Debian: python3-matplotlib).
"""
import argparse
import json
import pathlib
import re
import sys

SCHEMA_VERSION = 1
GIB = 2.0**30
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
        sys.exit(f"plot_run: {path}: {problem}")
    if not isinstance(result, dict) or result.get("schema_version") != SCHEMA_VERSION:
        sys.exit(f"plot_run: {path}: not a result.json of schema_version {SCHEMA_VERSION}")
    return result


def tidy(axes):
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def category_legend(plt, figure, categories):
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[name]) for name in categories]
    figure.legend(handles, [TITLES.get(name, name) for name in categories], loc="lower center", ncol=6, frameon=False,
                  fontsize=8)


def timeline(plt, variants, categories):
    """One panel a variant, stages as lanes, stage 0 on top."""
    lanes = sum(len(variant["stages"]) for variant in variants)
    figure, panels = plt.subplots(len(variants), 1, figsize=(12, 1.0 + 0.28 * lanes + 0.75 * len(variants)),
                                  squeeze=False)
    for axes, variant in zip(panels[:, 0], variants):
        step_us = variant["step_ps"] / 1e6
        scale, unit = (1e6, "s") if step_us >= 1e6 else (1e3, "ms") if step_us >= 1e3 else (1.0, "µs")
        for lane, stage in enumerate(variant["stages"]):
            axes.barh(lane, step_us / scale, height=0.8, color=COLOURS["bubble"])
            for index, name in enumerate(categories):
                spans = [(start / scale, (end - start) / scale) for start, end, category, _, _ in stage["gantt"]
                         if category == index]
                if spans and name != "bubble":
                    axes.broken_barh(spans, (lane - 0.4, 0.8), facecolors=COLOURS[name])
        axes.set_yticks(range(len(variant["stages"])))
        axes.set_yticklabels([f"stage {stage['stage']}" for stage in variant["stages"]], fontsize=8)
        axes.invert_yaxis()
        axes.set_xlim(0, step_us / scale)
        axes.set_title(variant["id"], loc="left", fontsize=10, fontweight="bold")
        axes.set_xlabel(unit, fontsize=8, loc="right", labelpad=-8)
        axes.tick_params(axis="x", labelsize=8)
        tidy(axes)
    category_legend(plt, figure, categories)
    height = figure.get_figheight()
    figure.tight_layout(rect=(0, 0.5 / height, 1, 1))
    return figure


def breakdown(plt, variants, categories):
    """Mean time of each category as a share of the step; the step itself at the right."""
    figure, axes = plt.subplots(figsize=(12, 1.4 + 0.34 * len(variants)))
    order = [name for name in COLOURS if name in categories]
    for row, variant in enumerate(variants):
        parts = variant["breakdown"]["sum_ps"]
        total = sum(parts.values())
        left = 0.0
        for name in order:
            share = 100.0 * parts[name] / total if total else 0.0
            axes.barh(row, share, left=left, height=0.78, color=COLOURS[name])
            if share >= 5:
                axes.text(left + share / 2, row, f"{share:.1f}", ha="center", va="center", fontsize=7,
                          color="#5d6570" if name == "bubble" else "white")
            left += share
        axes.text(101, row, f"{variant['iteration_s']:.3g} s", va="center", fontsize=8)
    axes.set_yticks(range(len(variants)))
    axes.set_yticklabels([variant["id"] for variant in variants], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("percent of the step, mean over the ranks", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    tidy(axes)
    category_legend(plt, figure, order)
    figure.tight_layout(rect=(0, 0.5 / figure.get_figheight(), 1, 1))
    return figure


def memory(plt, variants):
    """Bytes at the peak of each stage by purpose, against what one GPU has."""
    purposes = []
    for variant in variants:
        for stage in variant["stages"]:
            for name, size in stage["memory"]["by_purpose_bytes"].items():
                if size and name not in purposes:
                    purposes.append(name)
    rows = [(variant, stage) for variant in variants for stage in variant["stages"]]
    figure, axes = plt.subplots(figsize=(12, 1.4 + 0.2 * len(rows) + 0.12 * len(variants)))
    y, ticks, labels, previous = 0.0, [], [], None
    for variant, stage in rows:
        if previous is not None and variant is not previous:
            y += 0.6
        previous = variant
        left = 0.0
        for index, name in enumerate(purposes):
            size = (stage["memory"]["by_purpose_bytes"].get(name) or 0.0) / GIB
            axes.barh(y, size, left=left, height=0.8, color=MEMORY_COLOURS[index % len(MEMORY_COLOURS)])
            left += size
        if variant["capacity_gib"]:
            axes.plot([variant["capacity_gib"]] * 2, [y - 0.5, y + 0.5], color="#22262b", linewidth=1.2, linestyle="--")
        ticks.append(y)
        labels.append(f"{variant['id']}  stage {stage['stage']}")
        y += 1.0
    axes.set_yticks(ticks)
    axes.set_yticklabels(labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("GiB; dashed: capacity of one GPU", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.margins(y=0.01)
    axes.set_xlim(left=0)
    tidy(axes)
    handles = [plt.Rectangle((0, 0), 1, 1, color=MEMORY_COLOURS[i % len(MEMORY_COLOURS)]) for i in range(len(purposes))]
    figure.legend(handles, purposes, loc="lower center", ncol=9, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.35 / figure.get_figheight(), 1, 1))
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", help="a result.json")
    parser.add_argument("--out", default=".", help="folder for the pictures (default: here)")
    parser.add_argument("--variant", action="append", help="only this variant (repeat for more)")
    arguments = parser.parse_args()
    result = read_result(arguments.result)
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit("plot_run: matplotlib is missing; install it (Debian: apt install python3-matplotlib)")
    folder = pathlib.Path(arguments.out)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for case in result["cases"]:
        variants = [variant for variant in case["variants"] if variant["step_ps"] > 0 and variant["stages"]
                    and (not arguments.variant or variant["id"] in arguments.variant)]
        if not variants:
            continue
        stem = re.sub(r"[^A-Za-z0-9_.-]", "_", case["id"])
        for name, figure in (("timeline", timeline(plt, variants, result["categories"])),
                             ("breakdown", breakdown(plt, variants, result["categories"])),
                             ("memory", memory(plt, variants))):
            path = folder / f"{stem}_{name}.png"
            figure.savefig(path, dpi=110)
            plt.close(figure)
            print(path)
            drawn += 1
    if drawn == 0:
        sys.exit("plot_run: nothing to draw: no variant with a timeline matches")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Pipeline timelines of a run: one panel a variant, stages as lanes, one step.

  scripts/plot_timeline.py results/latest/result.json --out plots
"""
import plotting
from plotting import COLOURS, category_legend, tidy


def draw(plt, case, variants, result):
    """One panel a variant, stages as lanes, stage 0 on top."""
    categories = result["categories"]
    variants = [variant for variant in variants if variant["stages"]]
    if not variants:
        return None
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


if __name__ == "__main__":
    plotting.main(__doc__, "timeline", draw)

#!/usr/bin/env python3
"""Where the step goes: time by category, mean over the ranks, as a share of the step.

  scripts/plot_breakdown.py results/latest/result.json --out plots
"""
import plotting
from plotting import COLOURS, category_legend, duration, tidy


def draw(plt, case, variants, result):
    """Mean time of each category as a share of the step; the step itself at the right."""
    categories = result["categories"]
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
        axes.text(101, row, duration(variant["iteration_s"]), va="center", fontsize=8)
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


if __name__ == "__main__":
    plotting.main(__doc__, "breakdown", draw)

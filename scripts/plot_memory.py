#!/usr/bin/env python3
"""Memory by purpose at the peak of every stage, against what one GPU has.

  scripts/plot_memory.py results/latest/result.json --out plots
"""
import plotting
from plotting import GIB, MEMORY_COLOURS, tidy


def draw(plt, case, variants, result):
    """Bytes at the peak of each stage by purpose, against what one GPU has."""
    purposes = []
    for variant in variants:
        for stage in variant["stages"]:
            for name, size in stage["memory"]["by_purpose_bytes"].items():
                if size and name not in purposes:
                    purposes.append(name)
    variants = [variant for variant in variants if variant["stages"]]
    if not variants:
        return None
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


if __name__ == "__main__":
    plotting.main(__doc__, "memory", draw)

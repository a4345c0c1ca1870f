#!/usr/bin/env python3
"""Every comparison of a case as a waterfall: from the step of one variant, part by part, to the step of the other.

  scripts/plot_comparison.py results/latest/result.json --out plots
"""
import plotting
from plotting import BAD, COLOURS, GOOD, SOFT, duration, tidy


def panel(axes, fall):
    shown = [part for part in fall["parts"] if abs(part["seconds"] or 0) > 1e-4 * fall["from_s"]]
    labels = [fall["from"]] + [part["name"] for part in shown] + [fall["to"]]
    longest = max(fall["from_s"], fall["to_s"])
    axes.barh(0, fall["from_s"], height=0.7, color=COLOURS["backward"])
    axes.text(fall["from_s"], 0, " " + duration(fall["from_s"]), va="center", fontsize=8)
    level = fall["from_s"]
    for row, part in enumerate(shown, 1):
        low, high = sorted((level, level + part["seconds"]))
        axes.barh(row, high - low, left=low, height=0.7, color=BAD if part["seconds"] > 0 else GOOD)
        sign = "+" if part["seconds"] > 0 else "−"
        axes.text(high, row, f" {sign}{duration(abs(part['seconds']))}", va="center", fontsize=8)
        axes.plot([level, level], [row - 0.65, row + 0.35], color=SOFT, linewidth=0.7)
        level += part["seconds"]
        longest = max(longest, level)
    axes.barh(len(shown) + 1, fall["to_s"], height=0.7, color=COLOURS["backward"])
    axes.text(fall["to_s"], len(shown) + 1, " " + duration(fall["to_s"]), va="center", fontsize=8)
    axes.set_yticks(range(len(labels)))
    axes.set_yticklabels(labels, fontsize=8)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlim(0, 1.12 * longest)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    ratio = fall["from_s"] / fall["to_s"] if fall["to_s"] else float("nan")
    axes.set_title(f"{fall['from']} to {fall['to']}: {ratio:.2f} ×", loc="left", fontsize=10, fontweight="bold")
    tidy(axes)
    return len(labels)


def draw(plt, case, variants, result):
    names = {variant["id"] for variant in variants}
    falls = [fall for fall in case["waterfall"] if fall["from_s"] and fall["to_s"] and {fall["from"], fall["to"]} <= names]
    if not falls:
        return None
    rows = [2 + sum(abs(part["seconds"] or 0) > 1e-4 * fall["from_s"] for part in fall["parts"]) for fall in falls]
    figure, panels = plt.subplots(len(falls), 1, figsize=(11, sum(0.32 * r + 0.55 for r in rows)), squeeze=False,
                                  gridspec_kw={"height_ratios": rows})
    for axes, fall in zip(panels[:, 0], falls):
        panel(axes, fall)
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    plotting.main(__doc__, "comparison", draw)

#!/usr/bin/env python3
"""MFU and HFU of every variant; where an expectation or a claim speaks about MFU, its range or its target beside them.

  scripts/plot_mfu.py results/latest/result.json --out plots
"""
import plotting
from plotting import AMBER, COLOURS, GOOD, INK, label_rows, rows_figure


def expectations_of(case, variant):
    """Checks whose whole metric is the MFU of this variant."""
    return [check for check in case["checks"] if check["metric"] == f"{variant['id']}.mfu"]


def draw(plt, case, variants, result):
    rows = [variant for variant in variants if variant["mfu"] is not None]
    if not rows:
        return None
    figure, axes = rows_figure(plt, len(rows))
    longest = max(variant["hfu"] or variant["mfu"] for variant in rows)
    ranges = claims = False
    for row, variant in enumerate(rows):
        axes.barh(row, 100 * (variant["hfu"] or 0), height=0.62, color=COLOURS["recompute"], alpha=0.55)
        axes.barh(row, 100 * variant["mfu"], height=0.62, color=COLOURS["backward"])
        for check in expectations_of(case, variant):
            low, high = check["pass"]
            if low is not None or high is not None:
                low, high = low or 0.0, 1.0 if high is None else high
                axes.barh(row, 100 * (high - low), left=100 * low, height=0.9, fill=False, edgecolor=GOOD, linewidth=1.6)
                longest, ranges = max(longest, high), True
            if check["target"] is not None:
                claim = check["kind"] == "claim"
                axes.plot(100 * check["target"], row, marker="D", markersize=6, color=AMBER if claim else GOOD,
                          markeredgecolor=INK, markeredgewidth=0.6)
                longest, claims = max(longest, check["target"]), claims or claim
        axes.text(100 * max(variant["hfu"] or 0, variant["mfu"]) + 0.6, row, f"{100 * variant['mfu']:.1f}", va="center",
                  fontsize=8)
    label_rows(axes, [variant["id"] for variant in rows])
    axes.set_xlim(0, min(105.0, 112 * longest))
    axes.set_xlabel("percent of the dense peak", fontsize=8)
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS["backward"]),
               plt.Rectangle((0, 0), 1, 1, color=COLOURS["recompute"], alpha=0.55)]
    names = ["MFU", "HFU: recompute counts"]
    if ranges:
        handles.append(plt.Rectangle((0, 0), 1, 1, fill=False, edgecolor=GOOD))
        names.append("expected range")
    if claims:
        handles.append(plt.Line2D([], [], marker="D", linestyle="", color=AMBER, markeredgecolor=INK))
        names.append("claimed, never judged")
    figure.legend(handles, names, loc="lower center", ncol=4, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.4 / figure.get_figheight(), 1, 1))
    return figure


if __name__ == "__main__":
    plotting.main(__doc__, "mfu", draw)

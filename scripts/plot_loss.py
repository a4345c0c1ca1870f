#!/usr/bin/env python3
"""Loss of every trained step, one line a variant. Results of device sim have none.

  scripts/plot_loss.py results/latest/result.json --out plots
"""
import plotting
from plotting import MEMORY_COLOURS, tidy

DASHES = ("-", "--", ":", "-.")  # curves that agree bit for bit lie on one another


def draw(plt, case, variants, result):
    variants = [variant for variant in variants if variant["loss_curve"]]
    if not variants:
        return None
    figure, axes = plt.subplots(figsize=(9, 5))
    for index, variant in enumerate(variants):
        curve = [float("nan") if loss is None else loss for loss in variant["loss_curve"]]
        axes.plot(range(1, len(curve) + 1), curve, color=MEMORY_COLOURS[index % len(MEMORY_COLOURS)],
                  linestyle=DASHES[index % len(DASHES)], linewidth=2.4 - 1.2 * index / len(variants), label=variant["id"])
    axes.set_xlabel("step", fontsize=8)
    axes.set_ylabel("loss", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.legend(frameon=False, fontsize=8)
    axes.set_title(case["title"], loc="left", fontsize=9)
    tidy(axes)
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    plotting.main(__doc__, "loss", draw)

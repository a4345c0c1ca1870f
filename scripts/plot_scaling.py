#!/usr/bin/env python3
"""Throughput over the number of GPUs, one line a configuration (variants that differ in nothing but their size); ideal scaling
from the smallest beside it. Where a case has one size only, tokens per second and GPU of every variant.

  scripts/plot_scaling.py results/latest/result.json --out plots
"""
import plotting
from plotting import COLOURS, INK, MEMORY_COLOURS, SOFT, label_rows, rows_figure, tidy


def gpus_of(variant):
    layout = variant["layout"]
    return layout.get("tp", 1) * layout.get("pp", 1) * layout.get("dp", 1) * layout.get("cp", 1)


def series_of(variants):
    """Variants by everything but their size, those with at least two sizes."""
    series = {}
    for variant in variants:
        layout = {key: value for key, value in variant["layout"].items() if key not in ("tp", "pp", "dp", "global_batch")}
        key = (variant["hardware"], variant["stack"], variant["model"].get("family"), str(sorted(layout.items(), key=str)))
        series.setdefault(key, []).append(variant)
    return [sorted(members, key=gpus_of) for members in series.values() if len({gpus_of(m) for m in members}) > 1]


def draw(plt, case, variants, result):
    variants = [variant for variant in variants if variant["tokens_per_s_per_gpu"]]
    if not variants:
        return None
    series = series_of(variants)
    if not series:
        figure, axes = rows_figure(plt, len(variants))
        for row, variant in enumerate(variants):
            rate = variant["tokens_per_s_per_gpu"]
            axes.barh(row, rate, height=0.7, color=COLOURS["forward"])
            axes.text(rate, row, f" {rate:,.0f}", va="center", fontsize=8)
        label_rows(axes, [f"{variant['id']} ({gpus_of(variant)} GPUs)" for variant in variants])
        axes.set_xlim(0, 1.1 * max(variant["tokens_per_s_per_gpu"] for variant in variants))
        axes.set_xlabel("tokens per second and GPU", fontsize=8)
        figure.tight_layout()
        return figure
    figure, axes = plt.subplots(figsize=(9, 5.5))
    for index, members in enumerate(series):
        colour = MEMORY_COLOURS[index % len(MEMORY_COLOURS)]
        sizes = [gpus_of(m) for m in members]
        rates = [m["tokens_per_s_per_gpu"] * gpus for m, gpus in zip(members, sizes)]
        axes.plot(sizes, rates, marker="o", color=colour, label=f"{members[0]['id']} to {members[-1]['id']}")
        axes.plot(sizes, [rates[0] * gpus / sizes[0] for gpus in sizes], linestyle="--", linewidth=1, color=SOFT)
        for gpus, rate in zip(sizes, rates):
            axes.annotate(f"{100 * rate / gpus / (rates[0] / sizes[0]):.0f} %", (gpus, rate), fontsize=8, color=INK,
                          textcoords="offset points", xytext=(6, -10))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=10)
    axes.set_xlabel("GPUs", fontsize=8)
    axes.set_ylabel("tokens per second; dashed: ideal from the smallest", fontsize=8)
    axes.tick_params(labelsize=8)
    tidy(axes)
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    plotting.main(__doc__, "scaling", draw)

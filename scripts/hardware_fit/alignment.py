"""Matrix products whose rows do not begin at multiples of 16 bytes, and products of few terms.

Source: sweeps of single products, cookbook_products.json, which comes with the project (its file states what was taken).

Alignment: a kernel loads whole vectors of 16 bytes from operands whose row pitch is a multiple of that, 4 or 8 bytes from
narrower ones, single elements from odd ones, and the library has other, slower kernels for each. A product is as fast as its
least aligned operand allows: pitches are the dimensions that are contiguous in memory. 4 and 8 bytes run alike in every sweep,
so there are two classes beside the aligned one. The rate of a class is the median, over its fitted rows, of the aligned time
over the row's: aligned times lie on the line (in the logarithm) between the aligned neighbours of the same sweep. The range
goes from the 10th to the 90th percentile of all rows. bfloat16 has one published pair of products (pytorch-83272), of the same
shape in both types. Of Hopper and Blackwell there is no sweep, and single published products contradict each other: they get no
rates, so that there unaligned products cost like aligned ones.

Few terms: no grid has k under 512. There a product runs at the grid's rate for 512, and a multiple of the time in which its outputs
are written comes on top: a block of outputs is not written while its own few terms are read. It never takes longer than one
of 512 terms. The multiple is fitted on the aligned scores of up to 336 terms, on the GPU's own bandwidth; near 1 it says that
nothing of the writing is hidden. From 384 terms on the library has kernels that hide it, and the model is too slow there; no
model has heads that large.
"""
import json
import math
from pathlib import Path
from statistics import median

from hardware_fit.numerics import beside, errors, fit_positive, held_back, measured, proxy, quantile, rounded

TABLE = Path(__file__).resolve().parent / "cookbook_products.json"
ALIGNED = 8  # 16-bit elements
MEMORY_SHARE = 0.8
SCORES_BANDWIDTH = 1555.0  # GB/s, of the table's A100
LONGEST_FITTED = 336
LEAST_OF_GRIDS = 512.0
# pytorch/pytorch issue 83272: batch x [1024, n, 1024], TFLOP/s, CUDA 11.6
PAIR = {"fp16": (53.89, 132.48), "bf16": (12.21, 132.71)}  # 384 x 140 columns, 512 x 128 columns


def rows_of(gpu):
    """[(sweep, varied, batch, m, n, k, seconds)]"""
    out = []
    for sweep in json.loads(TABLE.read_text())["sweeps"]:
        for i, rate in enumerate(sweep["tflops"] if sweep["gpu"] == gpu else []):
            shape = {**sweep, sweep["varies"]: sweep["from"] + i * sweep["step"]}
            batch, m, n, k = (shape[key] for key in ("batch", "m", "n", "k"))
            out.append(((sweep["product"], sweep["varies"], sweep["from"]), shape[sweep["varies"]], batch, m, n, k,
                        2e-12 * batch * m * n * k / rate))
    return out


def class_of(elements):
    return "aligned" if elements % ALIGNED == 0 else "narrow" if elements % 2 == 0 else "odd"


def aligned_rate(row, aligned):
    """The rate of a row over that of its aligned neighbours."""
    sweep, varied, batch, m, n, k, seconds = row
    known = sorted((r[1], 1e-12 * r[2] * r[3] * r[4] * r[5] / r[6]) for r in aligned if r[0] == sweep)
    below, above = [r for r in known if r[0] < varied], [r for r in known if r[0] > varied]
    low, high = (below or above)[-1 if below else 0], (above or below)[0 if above else -1]
    part = (varied - low[0]) / (high[0] - low[0]) if high[0] > low[0] else 0.0
    reference = math.exp(math.log(low[1]) * (1 - part) + math.log(high[1]) * part)
    return 1e-12 * batch * m * n * k / seconds / reference


def class_entry(rows, aligned, name):
    """The constant of one class of one GPU, or None where it has no rows."""
    rates = [(row[0], row[1], aligned_rate(row, aligned)) for row in rows if class_of(row[1]) == name]
    if not rates:
        return None
    fitted = [r for r in rates if not held_back(*r[0], r[1])]
    held = [r for r in rates if held_back(*r[0], r[1])]
    value = median(rate for _, _, rate in fitted)
    every = [rate for _, _, rate in rates]
    return measured(value, "ratio", "cookbook-products", len(fitted), errors(lambda _: value, fitted),
                    held_back={"rows": len(held), **errors(lambda _: value, held)},
                    range=[rounded(quantile(every, 0.1), 3), rounded(min(1.0, quantile(every, 0.9)), 3)])


def alignment_block(gpu):
    """Rates by class and type over those of aligned products; None where no sweep is of this GPU."""
    rows = rows_of(gpu)
    aligned = [row for row in rows if class_of(row[1]) == "aligned"]
    fp16 = {name: entry for name in ("narrow", "odd") if (entry := class_entry(rows, aligned, name))}
    if not fp16:
        return None
    block = {"fp16": fp16}
    if gpu != "A100":
        return block
    narrow = {kind: slow / fast for kind, (slow, fast) in PAIR.items()}
    fp16["narrow"]["range"][0] = min(fp16["narrow"]["range"][0], rounded(narrow["fp16"], 3))
    fp16["narrow"]["note"] = (f"the range reaches down to {rounded(narrow['fp16'], 2)}, of the one pair published with an earlier "
                              "library (pytorch-83272)")
    reason = "one pair of products, 140 columns against 128, of a library of 2022; fp16 sweeps of a later one bound it"
    block["bf16"] = {"narrow": proxy(narrow["bf16"], "ratio", "pytorch-83272", reason, rows=2,
                                     range=[rounded(narrow["bf16"], 3), fp16["narrow"]["value"]]),
                     "odd": proxy(narrow["bf16"], "ratio", "pytorch-83272",
                                  "no odd pitch was published; no faster than even ones", rows=2,
                                  range=[rounded(narrow["bf16"], 3), fp16["odd"]["value"]])}
    return block


def short_product_entry(model):
    """What writing the outputs takes on top of few terms, over the bandwidth's time; `model` gives burst seconds of (m, n, k).
    The table's GPU is an A100; others take its ratio."""
    rows = [row for row in rows_of("A100") if row[0][0] == "scores" and class_of(row[1]) == "aligned"]

    def time(p, row):
        _, k, batch, m, n, _, _ = row
        grid = model((m * batch, n, LEAST_OF_GRIDS))
        written = 2.0 * batch * m * n / (MEMORY_SHARE * SCORES_BANDWIDTH * 1e9)
        return min(grid, grid * k / LEAST_OF_GRIDS + p[0] * written)

    short = [row for row in rows if row[1] <= LONGEST_FITTED]
    fitted = [row for row in short if not held_back(*row[0], row[1])]
    held = [row for row in short if held_back(*row[0], row[1])]
    p, error = fit_positive(time, fitted, (1.0,))
    longer = sorted((row for row in rows if row[1] > LONGEST_FITTED), key=lambda row: row[1])
    ratios = [row[-1] / time(p, row) for row in short]
    return measured(p[0], "ratio of time", "cookbook-products", len(fitted), error,
                    held_back={"rows": len(held), **errors(lambda row: time(p, row), held)},
                    spread=[beside(f"scores of {longer[0][1]} terms and more", lambda row: time(p, row), longer)],
                    range=[rounded(p[0] * min(ratios), 3), rounded(p[0] * max(ratios), 3)])

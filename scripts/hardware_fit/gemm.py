"""Matrix products: efficiency surface, waves of tiles, sustained rate.

Source: the burst grid whose rates lie nearest to the sustained collection of the same GPU (vidur) on the shapes both
have, all dimensions >= 1024 and above 60 GFLOP; where a GPU has one grid, that. The others are shown beside it.

Form: time = outputs k / (peak e) * exp(S(waves, k)), S on a coarse grid of knots (terms for narrow m and n were tried
and gained nothing on held-back rows); outputs partly rounded up to whole waves of the best tile, by the share of 0, 1/4, 1/2, 3/4 that fits best
(waves show on V100 and A100, not on Hopper and Blackwell: there single shapes are off, alike on B200 and GB200, by kernel
choices that no list of tiles, whole or in pairs of SMs, explained better than none). Under k = 512, where no grid has products,
and for operands that lie unaligned: alignment.py. No fewer outputs and no shorter k may take longer than more: S is lowered
where they would. V100 has too few rows for a surface: a start-up, an efficiency and a ramp in k on rounded outputs.
Where the held-back rows miss the aim (3 %, p90 12 %), the profile states what the nearest rows of the same m and n allow.
Where kernels of 100 ms and more run slower than those of 0.3 to 3 ms, S comes from kernels of at most 3 ms, or less where
the rates fall by more than 15 % from one band of durations to the next: longer ones meet the power limit. What they lose
is L(seconds), for isolated kernels only. Elsewhere S comes from all.

Sustained over burst: a training step is seconds of work under the power limit. Where long kernels slow down, as above,
it is the median same-shape ratio sustained / burst; else 1. A GPU without
a sustained collection takes that of the nearest GPU that has one, since the mechanism is the same. The range goes from the
median of these ratios to 1, on every GPU alike: how single shapes scatter around it is drawn shape by shape.

What is common to a table and what is a shape's own: tables of one GPU differ by a factor that all of their large products share
(A100, above 60 GFLOP: one table 9 and another 14 % faster than the chosen one), with single shapes scattered around it. The first is
the range of burst_efficiency: medians of measured over predicted rate, large products, of every table of bursts beside the chosen
one, and the best shape anyone found. The second is `other_machines`: what is left once each table's own median is taken out. Of its variance
what products within a factor of four in FLOPs share is 28, 12, 12 and 17 % (vLLM and vidur on A100, on H100), single octaves of FLOPs 29,
12, 15 and 19 %, m alone 1, 4, 5 and 26 %: that part, `of_size`, is drawn once for all of a size, the rest for each shape.

Accumulation: no table has products that add to fp32 outputs. The fitted ramp in k (two-constant fit on the same rows) is
the time a tile spends outside its k loop. Against the time its 2-byte outputs take to memory at 0.8 of the bandwidth,
that is the share of output traffic that the loop does not hide; the same share of the extra traffic is charged.

Transposes: DeepBench runs 45 shapes on V100 both plain (NN) and with the first operand transposed (TN). With all
dimensions >= 512, as a training step has them, TN takes 0.95 to 1.10 of the time of NN, median 1.01 over 13 shapes: less
than the fit's own error, so all layouts cost alike. Under 128 columns TN takes up to 2.5 times as long; the model makes no
claim there. Of the second operand transposed (NT) the table has neighbours only: 7,133 columns at 104, 105 and 109 TFLOP/s
where NN with 7,000 reaches 98, 104 and 112. `check_transposes` looks at the table again and stops where the rule does not
hold.

8-bit: training takes cuBLAS products, of which only best shapes are public: their ratio to the best 16-bit shape of the
same list. Another library's rows (vLLM's CUTLASS products) are shown beside it and are the low end of the range, 8-bit against 16-bit on the same
large shapes; the high end is twice, that of the peaks.
"""
import math
from statistics import median

from hardware_fit.numerics import (UNIT_S, beside, errors, fit_positive, hat, held_back, least_absolute, measured,
                                   on_knots, other_machines, percents, proxy, quantile, rounded, split_errors, stated)

TILES = ((256, 256, 0.97), (256, 128, 1.0), (128, 256, 1.0), (192, 128, 0.97), (128, 192, 0.97), (128, 128, 0.95),
         (256, 64, 0.88), (64, 256, 0.88), (128, 64, 0.8), (64, 128, 0.8), (64, 64, 0.65))
WAVES = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0)  # log2 of outputs / (128 x 128 x SMs)
DEPTHS = tuple(math.log2(k) for k in (512, 1024, 2048, 8192, 65536))
TIE_ROUNDED = 300.0
EMPTY_KERNEL_US = 5.96  # between events around an empty kernel (superbench)
AS_FLOOR = {"as": "memory_ops.floor"}  # what a launch costs the device is one thing for all kernels
LARGE_FLOPS = 60e9
BURSTS_BESIDE = {"aic-a100-sglang": ("llmcompass-a100",)}  # tables too short to be fitted: eager calls, launches included
BANDS = (1e-4, 3e-4, 1e-3, 3e-3)
LONG = (-3.0, -2.5, -2.0, -1.0)


def gemm_rows(table, prefix, least=512):
    groups = {}
    for row in table["rows"]:
        if row["source"].startswith(prefix) and row["batch"] == 1 and min(row["m"], row["n"], row["k"]) >= least:
            if prefix.startswith("aic") and row["source"] != prefix:
                continue
            seconds = 2.0 * row["m"] * row["n"] * row["k"] / (row["tflops"] * 1e12)
            groups.setdefault((row["m"], row["n"], row["k"]), []).append(seconds)
    return [(*shape, median(times)) for shape, times in sorted(groups.items())]


def same_shape_ratios(sustained, burst):
    times = {row[:3]: row[3] for row in burst}
    return [times[row[:3]] / row[3] for row in sustained
            if row[:3] in times and row in large([row])]


def rounded_outputs(m, n, gpu, wave_share):
    best = min(math.ceil(math.ceil(m / tm) * math.ceil(n / tn) / gpu["sms"]) * gpu["sms"] * tm * tn / rate
               for tm, tn, rate in TILES)
    return (m * n) * (best / (m * n)) ** wave_share


def tiles_json(wave_share):
    return {"wave_share": wave_share, "list": [{"m": m, "n": n, "relative": rate} for m, n, rate in TILES]}


class Surface:
    """The fitted form; calling it with (m, n, k, ...) gives burst seconds."""

    def __init__(self, gpu, wave_share):
        self.gpu, self.wave_share = gpu, wave_share
        self.values, self.long = [], None
        self.floor = 0.0

    def at_peak(self, row):
        m, n, k = row[:3]
        unit = 16384.0 * self.gpu["sms"]
        return 2.0 * max(rounded_outputs(m, n, self.gpu, self.wave_share), 0.25 * unit) * k / (self.gpu["peak"]["bf16"] * 1e12)

    def terms(self, row):
        m, n, k = row[:3]
        waves = hat(WAVES, math.log2(m * n / (16384.0 * self.gpu["sms"])))
        depth = hat(DEPTHS, math.log2(k))
        return [(i * len(WAVES) + j, a * b) for i, a in depth for j, b in waves]

    def fit(self, rows):
        count = len(WAVES) * len(DEPTHS)
        # Where waves are rounded, what is left must not follow the grid's own steps.
        smooth = TIE_ROUNDED if self.wave_share else 0.02
        ties = [(i * len(WAVES) + j, i * len(WAVES) + j + 1, smooth) for i in range(len(DEPTHS)) for j in
                range(len(WAVES) - 1)]
        ties += [(i * len(WAVES) + j, (i + 1) * len(WAVES) + j, 0.02) for i in range(len(DEPTHS) - 1) for j in
                 range(len(WAVES))]
        data = [(self.terms(row), math.log(row[-1] / self.at_peak(row))) for row in rows]
        self.values = least_absolute(data, count, ties)
        self.flatten()
        self.floor = min(row[-1] for row in rows) if not self.floor else self.floor
        return self

    def flatten(self):
        """Lowers the surface where fewer outputs or a shorter k would take longer than more."""
        steepest = 0.99 * (1.0 - self.wave_share) * math.log(2)
        for i in reversed(range(len(DEPTHS))):
            for j in reversed(range(len(WAVES))):
                at = i * len(WAVES) + j
                if j + 1 < len(WAVES):
                    self.values[at] = min(self.values[at], self.values[at + 1] + steepest * (WAVES[j + 1] - WAVES[j]))
                if i + 1 < len(DEPTHS):
                    self.values[at] = min(self.values[at], self.values[at + len(WAVES)] +
                                          0.99 * math.log(2) * (DEPTHS[i + 1] - DEPTHS[i]))

    def short(self, row):
        return self.at_peak(row) * math.exp(sum(a * self.values[i] for i, a in self.terms(row)))

    def fit_long(self, rows):
        data = [(hat(LONG, math.log10(s)), math.log(row[-1] / s)) for row in rows if (s := self.short(row)) > 1e-3]
        if len(data) > 20:
            self.long = least_absolute([([(i - 1, a) for i, a in terms if i > 0], y) for terms, y in data], len(LONG) - 1,
                                       [(i, None, 0.02) for i in range(len(LONG) - 1)])
            self.long = [0.0] + self.long

    def __call__(self, row):
        m, n, k = row[:3]
        math_s = self.short(row)
        if self.long:
            math_s *= math.exp(on_knots(LONG, self.long, math.log10(math_s)))
        return max(self.floor, math_s, 2.0 * m * n * k / (self.gpu["peak"]["bf16"] * 1e12),
                   2.0 * (m * k + k * n + m * n) / (0.8 * self.gpu["bandwidth"] * 1e9))

    def json(self):
        grid = [self.values[i * len(WAVES):(i + 1) * len(WAVES)] for i in range(len(DEPTHS))]
        best = min(line[WAVES.index(4.0)] for line in grid)  # many waves; few take smaller tiles, which count as slower
        def plain(values):
            return [round(v, 4) + 0.0 for v in values]

        out = {"efficiency": math.exp(-best), "surface": {
            "log2_waves": list(WAVES), "log2_k": [rounded(k, 6) for k in DEPTHS],
            "slowdown": [plain([v - best for v in line]) for line in grid]}}
        if self.long:
            out["long_kernel"] = {"log10_s": list(LONG), "slowdown": plain(self.long)}
        if self.wave_share:
            out["tiles"] = tiles_json(self.wave_share)
        return out


def rate_between(rows, low, high):
    """Median TFLOP/s of kernels of so many seconds."""
    return median(2e-12 * row[0] * row[1] * row[2] / row[3] for row in rows
                  if low <= row[3] < high and min(row[:3]) >= 1024)


def slows(rows):
    """Whether long kernels meet the power limit."""
    return rate_between(rows, 0.1, 1e9) < rate_between(rows, 0.3e-3, 3e-3)


def size_class(row):
    """Products within a factor of four in FLOPs."""
    return int(math.log2(2.0 * row[0] * row[1] * row[2])) // 2


def large(rows):
    """Products as large as those of training: what a table's common factor is read from."""
    return [r for r in rows if min(r[:3]) >= 1024 and 2.0 * r[0] * r[1] * r[2] > LARGE_FLOPS]


def rate_beside(model, rows):
    """Median rate of a table's large products over the model's."""
    return median(model(r) / r[3] for r in large(rows))


def last_band(rows):
    """The longest kernels that the power limit does not visibly slow."""
    before = None
    for low, high in zip(BANDS, BANDS[1:]):
        rates = [r[0] * r[1] * r[2] / r[3] for r in rows if low <= r[3] < high and min(r[:3]) >= 1024]
        if before and rates and median(rates) < 0.85 * before:
            return low
        before = median(rates) if rates else before
    return BANDS[-1]


def two_constants(rows, gpu, wave_share=0.0):
    """(start in us, efficiency, ramp in k) without surface, and the time function."""
    def time(p, r):
        m, n, k = r[:3]
        return max(p[0] * UNIT_S, 2.0 * rounded_outputs(m, n, gpu, wave_share) * (k + p[2]) /
                   (gpu["peak"].get("bf16", gpu["peak"]["fp16"]) * 1e12 * min(p[1], 1.0)),
                   2.0 * (m * k + k * n + m * n) / (0.8 * gpu["bandwidth"] * 1e9))
    p, _ = fit_positive(time, rows, (4.0, 0.8, 100.0))
    return p, lambda row: time(p, row)


def transposes(table, source="deepbench-v100"):
    """Transposed over plain times of products of training size."""
    times = {}
    for row in table["rows"]:
        if row["source"] == source and min(row["m"], row["n"], row["k"]) >= 512:
            times.setdefault(row["note"].split()[1], {})[row["m"], row["n"], row["k"]] = row["ms"]
    return [times["TN"][shape] / time for shape, time in times["NN"].items() if shape in times["TN"]]


def check_transposes(table):
    """Stops unless transposed and plain products of training size take equally long, to the fit's own error."""
    ratios = transposes(table)
    if len(ratios) < 10 or abs(median(ratios) - 1) > 0.03:
        raise SystemExit(f"DeepBench: transposed products take {median(ratios):.3f} of the time of plain ones "
                         f"({len(ratios)} shapes): layouts need a cost of their own")


def transposes_note(table):
    ratios = [(ratio, 1.0) for ratio in transposes(table)]
    return ("the same shape with the first operand transposed differs by "
            f"{percents(errors(lambda pair: pair[0], ratios))} over {len(ratios)} shapes; a row is the mean of both")


def neighbours_note(model, rows, fitted, held):
    """What the held-back rows allow at best: how far they are from the model once it is shifted to the median of the seven
    fitted rows of their own m and n nearest in k, and how far twins with one row more are from each other."""
    misses = {}
    for row in fitted:
        misses.setdefault(row[:2], []).append((row[2], math.log(row[3] / model(row))))
    shifted = []
    for row in held:
        nearest = sorted(misses.get(row[:2], []), key=lambda miss: (abs(math.log(miss[0] / row[2])), miss[0]))[:7]
        if len(nearest) == 7:
            shifted.append((model(row) * math.exp(median(miss for _, miss in nearest)), row[3]))
    times = {row[:3]: row[3] for row in rows}
    twins = [(time, times[m + 1, n, k]) for (m, n, k), time in times.items() if (m + 1, n, k) in times]
    return (f"the model shifted for every held-back row to what its own m and n show at the seven nearest k misses by "
            f"{percents(errors(lambda pair: pair[0], shifted))}, which bounds what a finer account of tiles and waves can "
            f"gain; m and m + 1 (2048, 4096) differ by {percents(errors(lambda pair: pair[0], twins))} over {len(twins)} pairs")


def accumulation(rows, gpu, wave_share=0.0):
    (_, efficiency, ramp), _ = two_constants(rows, gpu, wave_share)
    loop = 2.0 * ramp / (gpu["peak"].get("bf16", gpu["peak"]["fp16"]) * 1e12 * min(efficiency, 1.0))
    share = loop / (2.0 / (0.8 * gpu["bandwidth"] * 1e9))
    return proxy(min(share, 1.0), "share of extra traffic", "aic-gemm" if len(rows) > 200 else "deepbench",
                 "no table has products that add to fp32 outputs; the ramp in k over the time of the 2-byte outputs",
                 rows=len(rows), range=[0.0, 1.0])


def sustained_ratio(table, grid, sustained_prefix):
    pairs = same_shape_ratios(gemm_rows(table, sustained_prefix), grid)
    low = rounded(min(1.0, median(pairs)))
    if slows(grid):
        spread = [abs(x / median(pairs) - 1) for x in pairs]
        return measured(median(pairs), "ratio", "vidur", len(pairs),
                        {"median": rounded(median(spread), 2), "p90": rounded(quantile(spread, 0.9), 2)},
                        range=[low, 1.0],
                        note="same shapes above 60 GFLOP in a sustained collection; long kernels of the grid slow too")
    return stated(1.0, "ratio", "aic-gemm, vidur", rows=len([r for r in grid if r[3] >= 0.1]), range=[low, 1.0],
                  note="kernels of 100 ms and more run as fast as short ones in this grid: no power limit visible; the "
                       "range reaches down to the sustained collection")


def best_shapes(table, name, dtype):
    return next(r["tflops"] for r in table["rows"] if r["source"] == "mamf" and r["gpu"].startswith(name)
                and r["dtype"].startswith(dtype))


def fit_gemm(table, gpu, grids, sustained):
    """The gemm section; `sustained`: the vidur prefix, or a finished constant that stands in for one."""
    candidates = {prefix: gemm_rows(table, prefix) for prefix in grids}
    chosen = grids[0]
    if isinstance(sustained, str):
        collection = gemm_rows(table, sustained)
        chosen = min(grids, key=lambda g: abs(math.log(median(same_shape_ratios(collection, candidates[g])))))
    rows = candidates[chosen]
    fitted = [r for r in rows if not held_back(*r[:3])]
    held = [r for r in rows if held_back(*r[:3])]
    limited = slows(rows)
    limit = last_band(fitted) if limited else math.inf
    short = [r for r in fitted if r[3] < limit]
    floor = gpu["gemm_floor"] * UNIT_S
    models = []
    for share in (0.0, 0.25, 0.5, 0.75):
        model = Surface(gpu, share)
        model.floor = floor
        models.append(model.fit(short))
    model = min(models, key=lambda m: errors(m, fitted)["median"])
    if limited:
        model.fit_long(fitted)
    shape = model.json()
    report = split_errors(model, fitted, held)
    efficiency = shape.pop("efficiency")
    bursts = [(name, other) for name, other in candidates.items() if name != chosen]
    bursts += [(name, gemm_rows(table, name)) for name in BURSTS_BESIDE.get(chosen, ())]
    ratios = [rate_beside(model, other) for _, other in bursts] + [1.0]
    best = gpu.get("best_shape")
    if best:
        ratios.append(best_shapes(table, best, "bf16") / (gpu["peak"]["bf16"] * efficiency))
    out = {"source": "aic-gemm", **report}
    if report["held_back"]["median"] > 0.03 or report["held_back"]["p90"] > 0.12:
        out["note"] = neighbours_note(model, rows, fitted, held)
        short, long = rate_between(rows, 3e-4, 1e-3), rate_between(rows, 1e-3, 1e-2)
        if long < 0.85 * short:
            out["note"] += (f"; kernels of 0.3 to 1 ms run at {short:.0f} TFLOP/s in the median, of 1 to 10 ms at {long:.0f}, "
                            "and neighbours lie at either")
    others = bursts + ([(sustained + " (sustained)", collection)] if isinstance(sustained, str) else [])
    if others:
        out["other_machines"] = other_machines([(model, other) for _, other in others], size_class)
        out["spread"] = [beside(name, model, other) for name, other in others]
    out["floor"] = stated(gpu["gemm_floor"], "us", "aic-launch, superbench", range=[gpu["gemm_floor"], EMPTY_KERNEL_US], **AS_FLOOR)
    out["burst_efficiency"] = measured(efficiency, "share of dense peak", "aic-gemm" + (", llmcompass" if chosen in BURSTS_BESIDE else ""),
                                       report["rows"], report["fit_error"],
                                       range=[rounded(efficiency * min(ratios)), rounded(min(1.0, efficiency * max(ratios)))])
    out["sustained_over_burst"] = sustained_ratio(table, rows, sustained) if isinstance(sustained, str) \
        else sustained
    out["memory_share"] = stated(0.8, "share of HBM bandwidth", "aic-rule")
    out.update(shape)
    out["accumulate_exposed"] = accumulation([r for r in fitted if r[3] < BANDS[-1]], gpu)
    if gpu["peak"].get("fp8"):
        ratio = best_shapes(table, gpu["best_fp8"], "fp8") / best_shapes(table, gpu["best_bf16"], "bf16")
        cutlass = "-".join(chosen.split("-")[:2]) + "-vllm"
        rows8, rows16 = gemm_rows(table, cutlass + "-fp8"), gemm_rows(table, cutlass)
        low = median(same_shape_ratios(rows8, rows16)) if rows8 else 1.0
        out["fp8_over_bf16"] = proxy(ratio, "ratio", "mamf, aic-gemm" if rows8 else "mamf",
                                     "best shapes of both precisions, sustained; the range goes from another library's products, "
                                     "same large shapes, to the peaks", rows=2, range=[rounded(max(1.0, min(low, ratio)), 3), 2.0])
        if rows8:
            out["fp8_over_bf16"]["spread"] = [beside("vLLM CUTLASS products", lambda r: model(r) / ratio, rows8)]
        out["fp8_cast_share"] = proxy(0.8, "share of HBM bandwidth", "aic-rule", "casts stream like any kernel")
    return out, chosen, model

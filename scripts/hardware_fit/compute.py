"""Matrix products, fused attention and memory-bound kernels of one GPU."""
import math
from statistics import median

from hardware_fit.numerics import UNIT_S, errors, fit_positive, measured, proxy, quantile, rounded, stated


# --------------------------------------------------------------------------------------------------------------- GEMM
# Source of the curve (floor, k ramp, tiles): the burst grid whose rates lie nearest to the sustained collection (vidur)
# on the shapes both have, all dimensions >= 1024 and above 60 GFLOP. Rows up to 3 ms: longer kernels already meet the
# power limit, which is the sustained factor's business.
# Sustained factor: a training step is seconds of work under a power limit. If in the chosen grid kernels of 100 ms and
# more run slower than those of 0.3 to 3 ms, it is the median same-shape ratio sustained / burst; else 1.
# Tiles: kept where waves of tiles lower the median error by more than a tenth.
# Memory share: the grids hold no memory-bound product, so it is the 0.8 rule.

TILES = ((256, 128), (128, 256), (128, 128), (64, 64))


def gemm_rows(table, prefix):
    groups = {}
    for row in table["rows"]:
        if row["source"].startswith(prefix) and row["batch"] == 1 and min(row["m"], row["n"], row["k"]) >= 512:
            seconds = 2.0 * row["m"] * row["n"] * row["k"] / (row["tflops"] * 1e12)
            groups.setdefault((row["m"], row["n"], row["k"]), []).append(seconds)
    return [(*shape, median(times)) for shape, times in sorted(groups.items())]


def same_shape_ratios(sustained, burst):
    times = {row[:3]: row[3] for row in burst}
    return [times[row[:3]] / row[3] for row in sustained
            if row[:3] in times and min(row[:3]) >= 1024 and 2.0 * row[0] * row[1] * row[2] > 60e9]


def gemm_time(p, row, peak, bandwidth, sms, tiled):
    floor, efficiency, ramp = p[0] * UNIT_S, min(p[1], 1.0), p[2]
    m, n, k = row[:3]
    outputs = m * n
    if tiled:
        relative = (1.0, 1.0, min(p[3], 1.0), min(p[4], 1.0))
        outputs = min(math.ceil(math.ceil(m / tm) * math.ceil(n / tn) / sms) * sms * tm * tn / share
                      for (tm, tn), share in zip(TILES, relative))
    return floor + max(2.0 * outputs * (k + ramp) / (peak * efficiency),
                       2.0 * (m * k + k * n + m * n) / (0.8 * bandwidth))


def fit_gemm(table, sustained_prefix, burst_prefixes, peak, bandwidth, sms):
    sustained = gemm_rows(table, sustained_prefix)
    grids = {prefix: gemm_rows(table, prefix) for prefix in burst_prefixes}
    ratios = {prefix: same_shape_ratios(sustained, grid) for prefix, grid in grids.items()}
    chosen = min(burst_prefixes, key=lambda prefix: abs(math.log(median(ratios[prefix]))))
    grid = grids[chosen]

    def rate(low, high):
        return median([row[0] * row[1] * row[2] / row[3] for row in grid
                       if low <= row[3] < high and min(row[:3]) >= 1024])

    slows = rate(0.1, 1e9) < rate(0.3e-3, 3e-3)
    rows = [row for row in grid if row[3] <= 3e-3]
    smooth, smooth_error = fit_positive(lambda p, r: gemm_time(p, r, peak, bandwidth, sms, False), rows,
                                        (4.0, 0.8, 120.0))
    tiled, tiled_error = fit_positive(lambda p, r: gemm_time(p, r, peak, bandwidth, sms, True), rows,
                                      (4.0, 0.85, 120.0, 0.95, 0.85))
    use_tiles = tiled_error["median"] < 0.9 * smooth_error["median"]
    p, error = (tiled, tiled_error) if use_tiles else (smooth, smooth_error)
    count = len(rows)
    out = {
        "floor": measured(p[0], "us", "aic-gemm", count, error),
        "burst_efficiency": measured(min(p[1], 1.0), "share of dense peak", "aic-gemm", count, error),
        "k_ramp": measured(p[2], "elements of k", "aic-gemm", count, error),
        "memory_share": stated(0.8, "share of HBM bandwidth", "aic-rule"),
    }
    pairs = ratios[chosen]
    if slows:
        spread = [abs(x / median(pairs) - 1) for x in pairs]
        out["sustained_over_burst"] = measured(
            median(pairs), "ratio", "vidur", len(pairs),
            {"median": rounded(median(spread), 2), "p90": rounded(quantile(spread, 0.9), 2)},
            note="same shapes above 60 GFLOP in a sustained collection; long kernels of the burst grid slow down too")
    else:
        long_kernels = [row for row in grid if row[3] >= 0.1]
        out["sustained_over_burst"] = stated(
            1.0, "ratio", "aic-gemm", rows=len(long_kernels),
            note="kernels of 100 ms and more run as fast as short ones in this grid: no power limit visible")
    if use_tiles:
        relative = (1.0, 1.0, min(p[3], 1.0), min(p[4], 1.0))
        out["tiles"] = {"source": "aic-gemm", "rows": count, "fit_error": error,
                        "list": [{"m": m, "n": n, "relative": rounded(r)} for (m, n), r in zip(TILES, relative)]}
    return out, chosen


# ---------------------------------------------------------------------------------------------------------- attention
# Kernel: the one the training software picks by default on that GPU: FlashAttention-2 on A100, cuDNN on H100
# (Transformer Engine prefers cuDNN's fused attention on Hopper). Rates are the figures' printed values.
# Split into passes: the FlashAttention-2 figures of H100 give forward and forward + backward, hence the backward's rate
# relative to the forward's at each shape. It is carried over to A100 (same algorithm) and to cuDNN's forward (proxy);
# head size 256 takes the ratio of 128.

def attention_values(table, source, implementation):
    return {(r["head_dim"], r["causal"], r["seqlen"]): r["tflops"] for r in table["rows"]
            if r["source"] == source and r["impl"] == implementation}


def backward_over_forward(table):
    both = attention_values(table, "fa2-fig-h100", "FlashAttention-2")
    forward = attention_values(table, "fa3-fig-h100-fwd", "FlashAttention-2")
    return {key: 2.5 / (3.5 / both[key] - 1 / forward[key]) / forward[key] for key in both if key in forward}


def attention_block(table, gpu):
    ratio = backward_over_forward(table)
    if gpu == "A100":
        kernel, source = "FlashAttention-2", "fa2-figure, fa3-figure"
        both = attention_values(table, "fa2-fig-a100", "FlashAttention-2")
        forward = {key: value * (1 + 2.5 / ratio[key]) / 3.5 for key, value in both.items()}
        reason = "the figure gives forward and backward together; split by the ratio of the same kernel on H100"
        check_source = "aic-a100-sglang"
    else:
        kernel, source = "cuDNN fused attention", "fa3-figure, fa2-figure"
        forward = attention_values(table, "fa3-fig-h100-fwd", "cuDNN")
        reason = "no public backward rates of this kernel: FlashAttention-2's ratio of backward to forward is used"
        check_source = "aic-h100-trtllm"
    points = [{"head_dim": d, "causal": causal, "seq": seq, "forward": rounded(rate),
               "backward": rounded(rate * ratio[(min(d, 128), causal, seq)])}
              for (d, causal, seq), rate in sorted(forward.items())]
    pairs = [(forward[key], r["tflops"]) for r in table["rows"] if r["source"] == check_source
             and (key := (r["head_dim"], r["causal"], r["seqlen"])) in forward
             and r["batch"] * r["heads"] * r["seqlen"] >= 16 * 128 * 132]
    return {"kernel": kernel, "unit": "TFLOP/s", "source": source, "rows": len(points), "status": "proxy",
            "reason": reason, "floor": stated(3, "us", "aic-rule"),
            "check": {"source": "aic-attention", "rows": len(pairs), "error": errors(lambda pair: pair[0], pairs),
                      "note": "forward rates against another collection, work of many waves"},
            "points": points}


# ------------------------------------------------------------------------------------------------- memory-bound kernels
# Floor: 3 us in front of every kernel (aic-rule). Share of HBM bandwidth: elementwise = median of vidur's residual add
# where the traffic is at least eight times the L2 (below that the rates are
# still falling; H100's rows end earlier, so it takes the best streaming kernel of such size).
# Eager PyTorch rows (LLMCompass) carry tens of us of host time a call:
# t = floor + bytes / (share bandwidth) is fitted and only the share kept; row lengths up to 8192, those of training.
# An op without a measurement takes its nearest relative, and says so.

def eager_share(table, op, bandwidth, keep):
    rows = []
    for r in table["memory_bound"]["rows"]:
        if r["op"] == op and "LLMCompass" in r["source"]:
            dims = [int(x) for x in r["shape"].split("x")]
            if keep(dims):
                size = 4.0 * math.prod(dims)
                rows.append((size, size / (r["GBps"] * 1e9)))
    p, error = fit_positive(lambda p, r: p[0] * UNIT_S + r[0] / (min(p[1], 1.0) * bandwidth), rows, (30.0, 0.6))
    return min(p[1], 1.0), len(rows), error


def add_share(table, gpu, l2_bytes):
    fractions = [r["frac_of_peak"] for r in table["memory_bound"]["rows"] if r["op"] == "residual add"
                 and r["gpu"] == gpu and 6.0 * r["tokens"] * r["hidden"] >= 8 * l2_bytes]
    return fractions


def median_share(fractions, source, **more):
    middle = median(fractions)
    spread = [abs(x / middle - 1) for x in fractions]
    return measured(middle, SHARE, source, len(fractions),
                    {"median": rounded(median(spread), 2), "p90": rounded(quantile(spread, 0.9), 2)}, **more)


SHARE = "share of HBM bandwidth"


def quack(table, op, implementation, lengths):
    return [r["frac_of_peak"] for r in table["memory_bound"]["quack_h100"]
            if r["op"] == op and r["impl"] == implementation and r["shape"] in [f"(32K, {n})" for n in lengths]]


def memory_block(table, gpu):
    a100 = 2039e9
    gelu = measured(*(lambda s, n, e: (s, SHARE, "llmcompass", n, e))(
        *eager_share(table, "GELU", a100, lambda dims: dims[0] >= 1 << 24)))
    ops = {}
    if gpu == "A100":
        ops["add"] = median_share(add_share(table, "A100-80GB", 40 << 20), "vidur")
        ops["gelu"] = gelu
        for name, op in (("layernorm", "layernorm"), ("softmax", "softmax")):
            share, count, error = eager_share(table, op, a100, lambda dims: dims[1] <= 8192)
            ops[name] = measured(share, SHARE, "llmcompass", count, error)
        fp32 = [r["frac_of_peak"] for r in table["memory_bound"]["rows"]
                if r["op"] == "softmax" and r["dtype"] == "fp32" and "A100" in r["gpu"]]
        entropy = proxy(median(fp32), SHARE, "neusight",
                        "passes over fp32 rows; the nearest measured kernel is fp32 softmax")
    else:
        ops["add"] = proxy(median(quack(table, "RMSNorm", "QuACK", ("4K", "8K", "16K"))), SHARE, "quack",
                           "no H100 elementwise measurement far beyond the L2; tuned RMSNorm, one read and one write")
        ops["gelu"] = proxy(gelu["value"], SHARE, "llmcompass",
                            "no H100 measurement; A100's share of its HBM bandwidth")
        ops["layernorm"] = proxy(median(quack(table, "RMSNorm", "cuDNN", ("1K", "2K", "4K", "8K", "16K"))), SHARE,
                                 "quack", "no H100 LayerNorm measurement; cuDNN RMSNorm, row lengths 1k to 16k")
        ops["softmax"] = median_share(quack(table, "Softmax", "torch.compile", ("1K", "2K", "4K", "8K")), "quack",
                                      note="torch.compile, row lengths 1k to 8k")
        entropy = proxy(median(quack(table, "Cross-Entropy", "torch.compile", ("8K", "16K", "32K", "65K"))), SHARE,
                        "quack",
                        "passes over fp32 rows; the nearest measured kernel is the whole compiled cross-entropy")
    # 4 x 16 x 2048 x 2048 probabilities in 1.2 ms: 2 bytes read, 2 written, 1 of mask.
    ops["dropout"] = proxy(5 * 4 * 16 * 2048 * 2048 / 1.2e-3 / a100, SHARE, "cookbook",
                           "one measurement, on an A100-class GPU that is not named, as share of A100's HBM bandwidth",
                           rows=1)
    for op in ("ce_max", "ce_sum", "ce_loss", "ce_backward"):
        ops[op] = entropy

    def like(op, other, reason):
        ops[op] = proxy(ops[other]["value"], SHARE, ops[other]["source"], reason)

    for op in ("bias_gelu", "gelu_backward", "bias_gelu_backward"):
        like(op, "gelu", "as gelu: same streaming kernel with another operand")
    like("layernorm_backward", "layernorm", "as layernorm: no public measurement")
    like("bias_gradient", "layernorm", "as layernorm: row-wise read with a column reduction")
    like("softmax_backward", "softmax", "as softmax: no public measurement")
    like("bias_dropout_add", "dropout", "as dropout: the random numbers decide")
    like("dropout_backward", "add", "as add: multiplies by the stored mask, draws nothing")
    like("adamw", "add", "no public measurement; seven streams of an elementwise kernel")
    like("default", "add", "copies, casts, fills, gathers and reductions: streams like add")
    return {"floor": stated(3, "us", "aic-rule"), "shares": ops}

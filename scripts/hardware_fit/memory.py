"""Memory-bound kernels.

Floor: 3 us in front of every kernel (aic-rule). Share of HBM bandwidth: elementwise = median of vidur's residual add
where the traffic is at least eight times the L2 (below that the rates are
still falling; H100's rows end earlier, so it takes the best streaming kernel of such size).
Eager PyTorch rows (LLMCompass) carry tens of us of host time a call:
t = floor + bytes / (share bandwidth) is fitted and only the share kept; row lengths up to 8192, those of training.
An op without a measurement takes its nearest relative, and says so.
broadcast: a 16-bit elementwise kernel one of whose operands repeats or isn't contiguous. The FlashAttention-2 figures run
PyTorch's attention with and without a causal mask; with it, one more kernel adds [s, s] to [b, a, s, s] scores (forward only,
the gradient passes): the difference of the times for 4 bytes an element, the mask staying in the L2.
Blackwell: no public kernel measurement; it takes H100's shares. V100: NeuSight's fp32 kernels.
Ranges: what the measurements of the same kind of kernel say, other libraries' and precisions' included; 0.8 is what
aiconfigurator's authors observe. Of eager rows the fitted floor comes off first: it is the host's, and drawn as such. LayerNorm's
reach to row lengths of 16,384, the widest models' (PyTorch's kernel falls to 0.47 there), softmax's to 8,192; RMSNorm's to the serving
kernel that vidur timed, and a cross-entropy's, which A100 has no table of, over the three implementations on H100. An op that stands in for another has its range and is
drawn with it ("as"): what is not known of both is one thing. The floor's goes from the smallest
kernel in a graph to the time between events around an empty one.
"""
import math
from statistics import median

from hardware_fit.gemm import EMPTY_KERNEL_US
from hardware_fit.numerics import UNIT_S, fit_positive, measured, proxy, quantile, rounded, stated


def eager_rows(table, op):
    """[(dimensions, bytes, seconds)] of a kernel called eagerly."""
    rows = []
    for r in table["memory_bound"]["rows"]:
        if r["op"] == op and "LLMCompass" in r["source"]:
            dims = [int(x) for x in r["shape"].split("x")]
            size = 4.0 * math.prod(dims)
            rows.append((dims, size, size / (r["GBps"] * 1e9)))
    return rows


def eager_fit(table, op, bandwidth, keep):
    """(floor in us, share), rows, error"""
    rows = [r[1:] for r in eager_rows(table, op) if keep(r[0])]
    p, error = fit_positive(lambda p, r: p[0] * UNIT_S + r[0] / (min(p[1], 1.0) * bandwidth), rows, (30.0, 0.6))
    return (p[0], min(p[1], 1.0)), len(rows), error


def eager_share(table, op, bandwidth, keep):
    (_, share), count, error = eager_fit(table, op, bandwidth, keep)
    return share, count, error


def row_shares(table, op, bandwidth, longest):
    """Shares of single shapes with rows up to `longest`, the floor of the fitted ones taken off."""
    (floor, _), _, _ = eager_fit(table, op, bandwidth, lambda dims: dims[1] <= FITTED_LENGTH)
    return [size / (seconds - floor * UNIT_S) / bandwidth for dims, size, seconds in eager_rows(table, op) if dims[1] <= longest]


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
FITTED_LENGTH = 8192  # of eager rows
NORM_LENGTHS = ("1K", "2K", "4K", "8K", "16K")
VOCABULARIES = ("8K", "16K", "32K", "65K")


def broadcast_share(attention, gpu, bandwidth):
    rates = {(r["head_dim"], r["seqlen"], r["causal"]): r["tflops"] * 1e12 for r in attention["rows"]
             if r["source"] == f"fa2-fig-{gpu.lower()}" and r["impl"] == "pytorch-unfused"}
    shares = []
    for (head_dim, seq, causal), rate in rates.items():
        if causal:
            work = 3.5 * 4 * head_dim  # an element of the scores, both passes; the figure halves it under a causal mask
            shares.append(4.0 / (work / 2 / rate - work / rates[head_dim, seq, False]) / bandwidth)
    return median_share(shares, "fa2-figure", range=[rounded(min(shares)), rounded(max(shares))])


def quack(table, op, implementation, lengths):
    return [r["frac_of_peak"] for r in table["memory_bound"]["quack_h100"]
            if r["op"] == op and r["impl"] == implementation and r["shape"] in [f"(32K, {n})" for n in lengths]]


def widened(constant, values):
    """The constant with the range of what public sources say."""
    constant["range"] = [rounded(min([constant["value"], *values])), rounded(max([constant["value"], *values]))]
    return constant


def fractions(table, op, gpu):
    return [r["frac_of_peak"] for r in table["memory_bound"]["rows"] if r["op"] == op and gpu in r["gpu"]
            and r["frac_of_peak"] <= 1 and r.get("shape", "") != "1024"]


def fp32_fractions(table, op, gpu):
    return [r["frac_of_peak"] for r in table["memory_bound"]["rows"] if r["op"] == op and r["dtype"] == "fp32" and gpu in r["gpu"]]


def gated_shares(table, gpu):
    """A serving library's SiLU times gate beyond the L2, the other measured activation kernel."""
    return [r["frac_of_peak"] for r in table["memory_bound"]["rows"] if r["op"] == "SiLU*mul" and gpu in r["gpu"]
            and r.get("tokens", 0) >= 2048]


def serving_norm_shares(table, gpu):
    """A serving library's RMSNorm beyond the L2: the only RMSNorm of an A100 that is public, and H100's slowest."""
    return [r["frac_of_peak"] for r in table["memory_bound"]["rows"] if r["op"].startswith("RMSNorm") and gpu in r["gpu"]
            and r.get("tokens", 0) >= 2048]


def entropy_shares(table):
    """Whole cross-entropies of three libraries, each its median over row lengths of vocabularies; H100 alone has such rows."""
    return [median(quack(table, "Cross-Entropy", name, VOCABULARIES)) for name in ("torch.compile", "Liger", "QuACK")]


def volta_block(table, attention):
    def share(*names):
        values = [r["frac_of_peak"] for r in table["memory_bound"]["rows"] if r["op"] in names and "V100" in r["gpu"]]
        return proxy(median(values), SHARE, "neusight", "fp32 kernels of a V100 PCIe", rows=len(values))

    ops = {"add": share("add", "mul", "div"), "gelu": share("gelu"), "layernorm": share("ln"), "softmax": share("softmax")}
    for op in ("ce_max", "ce_sum", "ce_loss", "ce_backward", "softmax_backward"):
        ops[op] = ops["softmax"]
    for op in ("bias_gelu", "gelu_backward", "bias_gelu_backward"):
        ops[op] = ops["gelu"]
    for op in ("layernorm_backward", "bias_gradient"):
        ops[op] = ops["layernorm"]
    for op in ("dropout_backward", "adamw", "default"):
        ops[op] = ops["add"]
    ops["dropout"] = proxy(5 * 4 * 16 * 2048 * 2048 / 1.2e-3 / 2039e9, SHARE, "cookbook",
                           "one measurement, on an A100-class GPU that is not named, as share of A100's HBM bandwidth",
                           rows=1)
    ops["bias_dropout_add"] = ops["dropout"]
    ops["broadcast"] = proxy(broadcast_share(attention, "A100", 2039e9)["value"], SHARE, "fa2-figure",
                             "no V100 measurement; A100's share of its HBM bandwidth")
    return {"floor": stated(3, "us", "aic-rule"), "shares": ops}


def memory_block(table, attention, gpu):
    if gpu == "V100":
        return volta_block(table, attention)
    a100 = 2039e9
    gelu = measured(*(lambda s, n, e: (s, SHARE, "llmcompass", n, e))(
        *eager_share(table, "GELU", a100, lambda dims: dims[0] >= 1 << 24)))
    ops = {}
    if gpu == "A100":
        ops["add"] = median_share(add_share(table, "A100-80GB", 40 << 20), "vidur, neusight, aic-rule")
        widened(ops["add"], [0.8] + [x for op in ("add", "mul", "div") for x in fractions(table, op, "A100")])
        ops["gelu"] = {**gelu, "source": "llmcompass, vidur, neusight"}
        widened(ops["gelu"], gated_shares(table, "A100") + fractions(table, "tanh", "A100"))
        for op, fp32_op, longest in (("layernorm", "ln", 16384), ("softmax", "softmax", 8192)):
            share, count, error = eager_share(table, op, a100, lambda dims: dims[1] <= FITTED_LENGTH)
            ops[op] = measured(share, SHARE, "llmcompass, neusight", count, error)
            widened(ops[op], row_shares(table, op, a100, longest) + fp32_fractions(table, fp32_op, "A100"))
        entropy = widened(proxy(median(fp32_fractions(table, "softmax", "A100")), SHARE, "neusight, llmcompass, quack",
                                "passes over fp32 rows; the nearest measured kernel is fp32 softmax, and the range that of whole "
                                "cross-entropies on H100"),
                          [ops["softmax"]["value"], *entropy_shares(table)])
    else:
        ops["add"] = widened(proxy(median(quack(table, "RMSNorm", "QuACK", ("4K", "8K", "16K"))), SHARE, "quack, aic-rule, vidur",
                                   "no H100 elementwise measurement far beyond the L2; tuned RMSNorm, one read and one write"),
                             [0.8, median(add_share(table, "H100-80GB", 24 << 20))])
        ops["gelu"] = widened(proxy(gelu["value"], SHARE, "llmcompass, vidur",
                                    "no H100 measurement; A100's share of its HBM bandwidth"), gated_shares(table, "H100"))
        ops["layernorm"] = widened(
            proxy(median(quack(table, "RMSNorm", "cuDNN", NORM_LENGTHS)), SHARE,
                  "quack", "no H100 LayerNorm measurement; cuDNN RMSNorm, row lengths 1k to 16k"),
            [median(quack(table, "RMSNorm", name, NORM_LENGTHS)) for name in ("torch.compile", "Liger", "QuACK")])
        lengths = ("1K", "2K", "4K", "8K")
        ops["softmax"] = widened(median_share(quack(table, "Softmax", "torch.compile", lengths), "quack",
                                              note="torch.compile, row lengths 1k to 8k"),
                                 [median(quack(table, "Softmax", name, lengths)) for name in ("Liger", "QuACK")])
        entropy = widened(proxy(median(quack(table, "Cross-Entropy", "torch.compile", VOCABULARIES)), SHARE, "quack",
                                "passes over fp32 rows; the nearest measured kernel is the whole compiled cross-entropy"),
                          entropy_shares(table))
    ops["rmsnorm"] = widened(proxy(ops["layernorm"]["value"], SHARE, f"{ops['layernorm']['source']}, vidur",
                                   "as layernorm: the training kernels' pattern; the range reaches to a serving library's RMSNorm"),
                             ops["layernorm"]["range"] + serving_norm_shares(table, "A100" if gpu == "A100" else "H100"))
    # 4 x 16 x 2048 x 2048 probabilities in 1.2 ms: 2 bytes read, 2 written, 1 of mask.
    ops["dropout"] = proxy(5 * 4 * 16 * 2048 * 2048 / 1.2e-3 / a100, SHARE, "cookbook",
                           "one measurement, on an A100-class GPU that is not named, as share of A100's HBM bandwidth",
                           rows=1)
    widened(ops["dropout"], [ops["add"]["value"]])
    ops["ce_max"] = entropy
    for op in ("ce_sum", "ce_loss", "ce_backward"):
        ops[op] = {**entropy, "as": "memory_ops.shares.ce_max"}

    def like(op, other, reason):
        ops[op] = proxy(ops[other]["value"], SHARE, ops[other]["source"], reason, range=ops[other]["range"],
                        **{"as": f"memory_ops.shares.{other}"})

    for op in ("bias_gelu", "gelu_backward", "bias_gelu_backward"):
        like(op, "gelu", "as gelu: same streaming kernel with another operand")
    like("layernorm_backward", "layernorm", "as layernorm: no public measurement")
    like("rmsnorm_backward", "rmsnorm", "as rmsnorm: no public measurement")
    like("bias_gradient", "layernorm", "as layernorm: row-wise read with a column reduction")
    like("softmax_backward", "softmax", "as softmax: no public measurement")
    like("bias_dropout_add", "dropout", "as dropout: the random numbers decide")
    like("dropout_backward", "add", "as add: multiplies by the stored mask, draws nothing")
    like("adamw", "add", "no public measurement; seven streams of an elementwise kernel")
    like("default", "add", "copies, casts, fills, gathers and reductions: streams like add")
    ops["broadcast"] = broadcast_share(attention, *(("A100", a100) if gpu == "A100" else ("H100", 3350e9)))
    if gpu not in ("A100", "H100"):
        for op in ops:
            ops[op] = proxy(ops[op]["value"], SHARE, ops[op]["source"], f"no {gpu} measurement; H100's share of its bandwidth",
                            range=ops[op]["range"], **{"as": ops[op]["as"]} if "as" in ops[op] else {})
    return {"floor": stated(3, "us", "aic-rule, aic-launch, superbench", range=[2.45, EMPTY_KERNEL_US]), "shares": ops}

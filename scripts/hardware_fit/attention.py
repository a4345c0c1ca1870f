"""Fused attention: rate by head size, masking and length, and what few blocks of query rows cost.

Kernel: the one the training software picks by default on that GPU: FlashAttention-2 on A100, cuDNN on H100 and its kin
(Transformer Engine prefers cuDNN's fused attention on Hopper). Its printed figure is the source, where there is one;
Blackwell has none and takes NVIDIA's only collection (prefill, causal, multi-head rows); V100's tensor cores have no
FlashAttention-2, and xformers' share of A100's peak stands in.

Form: rate(s) = rate / (1 + (ramp / s)^power), power 1 but for the collections. Passes: the FlashAttention-2 figures of
H100 give forward and forward + backward, hence the backward's rate relative to the forward's at each shape. It is carried
over to A100 (same algorithm) and to the other kernels (proxy); head size 256 takes the ratio of 128.

Occupancy: no figure has few blocks. NVIDIA's collections have: causal prefill, multi-head rows. ln(time / work) = a level
for each length and head size + O(blocks per SM) + the share of the rounding up to whole waves and the block height (128
or 256 rows) that fit best. Besides, a prefill kernel's time has the write of keys and values into the paged cache, launched
token by token: for the same work, many sequences of few heads take longer than few of many (B200, head size 64, 1,024
tokens: 64 sequences of 8 heads a third longer than 8 of 64). It is fitted as a time a token (0 to 2 ns), counted when the
rows are compared and left out of rates and occupancy, as training writes no cache. Where the levels become the rates
(Blackwell), the floor that the profile charges every kernel comes off first, and the errors are those of the rates. A100 takes sglang's collection and Hopper TensorRT-LLM's: each GPU's most regular one (least
error of this form). Their levels are not used: they write a paged cache besides. How much longer their rows of many blocks take than the figure
says, that write counted, is the range of the profile's time factor, of the figure's kernel under its own name too. On A100 sglang and vLLM run FlashAttention-2;
TensorRT-LLM's kernel is its own, which no training software runs: it is shown and not drawn. On Hopper no collection runs cuDNN's: both stand in. Single shapes of 2,048 positions and more, each collection's
own median taken out, give the error that an ensemble draws of FlashAttention-2 shape by shape: held-back rows of a figure say only how a curve
interpolates it. Other kernels have no table of another machine and keep those.
"""
import math

from hardware_fit.gemm import AS_FLOOR, EMPTY_KERNEL_US
from hardware_fit.numerics import (UNIT_S, beside, fit_positive, hat, held_back, least_absolute, on_knots, other_machines, rounded,
                                   split_errors, stated, time_factor)

BLOCKS = (-2.0, -1.0, 0.0, 1.0, 2.0, 4.0)  # log2 of blocks per SM
FLOOR_US = 3
NOT_DRAWN = ("aic-a100-trtllm",)
TRAINED_LENGTH = 2048  # under it, what a prefill does for each sequence besides shows
WRITES = tuple(0.2 * i for i in range(11))  # ns a token, to write its keys and values into the paged cache


def figure(table, source, implementation):
    return {(r["head_dim"], r["causal"], r["seqlen"]): r["tflops"] for r in table["rows"]
            if r["source"] == source and r["impl"] == implementation}


def backward_over_forward(table):
    both = figure(table, "fa2-fig-h100", "FlashAttention-2")
    forward = figure(table, "fa3-fig-h100-fwd", "FlashAttention-2")
    return {key: 2.5 / (3.5 / both[key] - 1 / forward[key]) / forward[key] for key in both if key in forward}


def curve(rows, power=None):
    """(rate, ramp, power) of [(length, 1 / rate)]."""
    def exponent(p):
        return power or min(p[2], 1.0)  # above 1 a longer sequence on idle SMs would take less time

    def time(p, r):
        return (1 + (p[1] / r[0]) ** exponent(p)) / p[0]
    p, _ = fit_positive(time, rows, (1 / min(r[1] for r in rows), 300.0) + (() if power else (0.95,)), restarts=3)
    return p[0], p[1], exponent(p)


def rate(p, seq):
    return p[0] / (1 + (p[1] / seq) ** p[2])


def as_json(p):
    return {"rate": rounded(p[0]), "ramp": rounded(p[1]), "power": rounded(p[2], 3)}


def collection(table, source, gpu):
    """(head_dim, length, batch x heads, work, tokens, seconds) of multi-head rows."""
    rows = []
    for r in table["rows"]:
        if r["source"] == source and r["heads"] == r["kv_heads"] and r["causal"]:
            work = 2.0 * r["batch"] * r["heads"] * r["seqlen"] ** 2 * r["head_dim"]
            rows.append((r["head_dim"], r["seqlen"], r["batch"] * r["heads"], work, r["batch"] * r["seqlen"],
                         work / (r["tflops"] * 1e12)))
    return rows


class Occupancy:
    def __init__(self, rows, gpu, block, waves, write, floor_us=0):
        self.sms, self.block, self.waves, self.write, self.floor_us = gpu["sms"], block, waves, write, floor_us
        self.levels = sorted({r[:2] for r in rows})
        fitted = [r for r in rows if not held_back(*r[:3])]
        data = []
        for r in fitted:
            terms = [(self.levels.index(r[:2]), 1.0)]
            terms += [(len(self.levels) + i, a) for i, a in hat(BLOCKS, self.log_blocks(r)) if i < len(BLOCKS) - 1]
            data.append((terms, math.log((r[-1] - self.beside(r)) / r[3]) - self.rounding(r)))
        count = len(self.levels) + len(BLOCKS) - 1
        self.values = least_absolute(data, count, [(i, None, 1e-3) for i in range(count)])
        self.slowdown = self.values[len(self.levels):] + [0.0]
        for i in reversed(range(len(BLOCKS) - 1)):  # fewer blocks never take longer than more
            steepest = (1.0 - waves) * math.log(2) * (BLOCKS[i + 1] - BLOCKS[i])
            self.slowdown[i] = min(self.slowdown[i], self.slowdown[i + 1] + 0.98 * steepest)
        self.report = split_errors(self, fitted, [r for r in rows if held_back(*r[:3])])

    def blocks(self, r):
        return max(r[2] * math.ceil(r[1] / self.block) / self.sms, 2.0 ** BLOCKS[0])

    def log_blocks(self, r):
        return math.log2(self.blocks(r))

    def rounding(self, r):
        return self.waves * math.log(math.ceil(self.blocks(r)) / self.blocks(r))

    def beside(self, r):
        """Seconds besides the kernel's arithmetic."""
        return self.floor_us * UNIT_S + r[4] * self.write * 1e-9

    def level(self, head, seq):
        return math.exp(self.values[self.levels.index((head, seq))])

    def at_level(self, r, level):
        """Seconds of a row whose kernel takes `level` for each unit of work on enough blocks."""
        return self.beside(r) + r[3] * level * math.exp(on_knots(BLOCKS, self.slowdown, self.log_blocks(r)) +
                                                        self.rounding(r))

    def __call__(self, r):
        return self.at_level(r, self.level(*r[:2]))


def occupancy(table, source, gpu, floor_us=0):
    rows = collection(table, source, gpu)
    longest = min((r[-1] - floor_us * UNIT_S) / r[4] for r in rows) * 1e9
    return min((Occupancy(rows, gpu, block, waves, write, floor_us) for write in WRITES if write < 0.9 * longest
                for block in (128, 256) for waves in (0.0, 0.25, 0.5)),
               key=lambda o: o.report["fit_error"]["median"] + o.report["fit_error"]["p90"] / 3)


def occupancy_json(best, source_key, name, **more):
    return {"source": source_key, **best.report, **more,
            "note": f"{name}; " + (f"{rounded(best.write)} ns a token for writing its cache counted in the errors" if best.write
                                   else "no cost of writing its cache shows"),
            "block_rows": best.block, "wave_share": best.waves, "log2_blocks_per_sm": list(BLOCKS),
            "slowdown": [rounded(v, 3) for v in best.slowdown]}


def split_passes(both, ratio):
    """Forward and backward rates of a figure of forward + backward."""
    forward = {key: value * (1 + 2.5 / ratio[key]) / 3.5 for key, value in both.items()}
    return forward, {key: value * ratio[key] for key, value in forward.items()}


def from_figure(forward, backward, held=True):
    """rates section and error report; errors are of forward + backward."""
    rates, fits = [], {}
    for head, causal in sorted({key[:2] for key in forward}):
        passes = {}
        for name, values in (("forward", forward), ("backward", backward)):
            rows = [(seq, 1 / value) for (d, c, seq), value in sorted(values.items()) if (d, c) == (head, causal)
                    and not (held and held_back(d, c, seq))]
            passes[name] = curve(rows, power=1.0)
        fits[head, causal] = passes
        rates.append({"head_dim": head, "causal": causal, **{name: as_json(p) for name, p in passes.items()}})

    def predict(r):
        passes = fits[r[0], r[1]]
        return 1 / rate(passes["forward"], r[2]) + 2.5 / rate(passes["backward"], r[2])
    rows = [(*key, 1 / forward[key] + 2.5 / backward[key]) for key in sorted(forward)]
    kept = [r for r in rows if held_back(*r[:3])]
    return rates, split_errors(predict, [r for r in rows if not held_back(*r[:3])], kept)


def section(kernel, source, report, rates, filled, reason, compared=(None, None), **more):
    spread, machines = compared
    beside_it = {"spread": spread, "time_factor": time_factor(
        [s for s in spread if s["source"] not in NOT_DRAWN], "aic-attention",
        "the range reaches to the slowest collection of prefill rows of many blocks, forward only")} if spread else {}
    return {"kernel": kernel, "unit": "TFLOP/s", "source": source, "status": "proxy", "reason": reason, **report,
            **({"other_machines": machines} if machines else {}), **beside_it, **more, "floor": stated(FLOOR_US, "us", "aic-rule, superbench", range=[2.45, EMPTY_KERNEL_US], **AS_FLOOR),
            "rates": rates, "occupancy": filled}


def others(table, sources, rates, gpu):
    """Collections of many blocks beside the profile's forward rates; and how far their single shapes lie, as other machines' do."""
    out, compared = [], []
    for source in sources:
        write = occupancy(table, source, gpu).write * 1e-9
        rows = [r for r in collection(table, source, gpu) if r[2] * r[1] >= 16 * 128 * gpu["sms"]]
        by_head = {r["head_dim"]: r["forward"] for r in rates if r["causal"]}
        rows = [r for r in rows if r[0] in by_head]

        def predict(r, write=write):
            p = by_head[r[0]]
            return r[3] / (1e12 * rate((p["rate"], p["ramp"], p["power"]), r[1])) + r[4] * write
        out.append(beside(source, predict, rows))
        if source not in NOT_DRAWN:
            compared.append((predict, [r for r in rows if r[1] >= TRAINED_LENGTH]))
    return out, other_machines(compared)


def fork_factors(table, source):
    """What training software runs under Triton's name is a fork of the tutorial's kernel with other blocks, which its authors place beside
    the CUDA kernel of that year ("forward faster, backward slower, overall slightly slower": flash_attn_triton.py); the figure has
    both, and which its fork is like nobody measured."""
    triton, cuda = figure(table, source, "FlashAttention-triton"), figure(table, source, "FlashAttention-1")
    ratios = [triton[key] / cuda[key] for key in triton]
    return {"flash-attention-triton": stated(1, "ratio of time", "fa2-figure, triton-fork", range=[rounded(min(ratios)), rounded(max(1.0, *ratios))],
                                             note="the figure's kernel is not the one that training software forked; from its time to that of the "
                                                  "CUDA kernel of the year, shape by shape")}


def other_kernels(table, source, kernels, ratio, usual=None, machines=None):
    """Kernels of a figure that software of other years ran, or names; `usual`: the profile's own, under its name, and how far its single
    shapes lie on other machines."""
    out = []
    for kernel, implementation in kernels:
        rates, report = from_figure(*split_passes(figure(table, source, implementation), ratio))
        out.append({"kernel": kernel, "source": "fa2-figure, fa3-figure", "status": "proxy",
                    "reason": "the figure gives forward and backward together; split by FlashAttention-2's ratio on H100",
                    **report, **({"other_machines": machines, "usual_time_factor": True} if kernel == usual else {}),
                    "rates": rates})
    return out


def attention_block(table, name, gpu):
    ratio = backward_over_forward(table)
    if name == "A100":
        forward, backward = split_passes(figure(table, "fa2-fig-a100", "FlashAttention-2"), ratio)
        rates, report = from_figure(forward, backward)
        filled = occupancy_json(occupancy(table, "aic-a100-sglang", gpu), "aic-attention", "aic-a100-sglang")
        compared = others(table, ("aic-a100-sglang", "aic-a100-vllm", "aic-a100-trtllm"), rates, gpu)
        return section("FlashAttention-2", "fa2-figure, fa3-figure", report, rates, filled,
                       "the figure gives forward and backward together; split by the ratio of the same kernel on H100",
                       compared=compared, kernel_time_factors=fork_factors(table, "fa2-fig-a100"),
                       other_kernels=other_kernels(table, "fa2-fig-a100", (
                           ("flash-attention-1", "FlashAttention-1"), ("flash-attention-2", "FlashAttention-2"),
                           ("flash-attention-triton", "FlashAttention-triton")), ratio,
                           "flash-attention-2", compared[1]))
    if name in ("H100", "H200"):
        forward = figure(table, "fa3-fig-h100-fwd", "cuDNN")
        backward = {(d, c, s): v * ratio[min(d, 128), c, s] for (d, c, s), v in forward.items()}
        rates, report = from_figure(forward, backward)
        filled = occupancy_json(occupancy(table, "aic-h100-trtllm", gpu), "aic-attention", "aic-h100-trtllm")
        reason = "no public backward rates of this kernel: FlashAttention-2's ratio of backward to forward is used"
        if name == "H200":
            reason = "no figure of this GPU: H100's, which has the same SMs and clocks; " + reason
        spread, _ = others(table, ("aic-h100-trtllm", "aic-h100-vllm") if name == "H100" else ("aic-h200-vllm",), rates, gpu)
        return section("cuDNN fused attention", "fa3-figure, fa2-figure", report, rates, filled, reason,
                       compared=(spread, None),
                       other_kernels=other_kernels(table, "fa2-fig-h100", (
                           ("flash-attention-1", "FlashAttention-1"), ("flash-attention-2", "FlashAttention-2")), ratio))
    if name == "V100":
        forward, backward = split_passes(figure(table, "fa2-fig-a100", "xformers"), ratio)
        share = 125.0 / 312.0
        rates, report = from_figure({k: v * share for k, v in forward.items()},
                                    {k: v * share for k, v in backward.items()})
        filled = occupancy_json(occupancy(table, "aic-a100-sglang", dict(gpu, sms=108)), "aic-attention",
                                "aic-a100-sglang", status="proxy", reason="no attention measurement on V100: A100's")
        return section("xformers memory-efficient attention", "fa2-figure, fa3-figure", report, rates, filled,
                       "no attention measurement on V100: the kernel's share of A100's peak, split as on H100")
    source = f"aic-{name.lower()}-vllm"
    best = occupancy(table, source, gpu, FLOOR_US)
    whole = figure(table, "fa3-fig-h100-fwd", "cuDNN")
    rates, levels = [], {}
    for head in (64, 128):
        lengths = [seq for d, seq in best.levels if d == head]
        causal = curve([(seq, 1e12 * best.level(head, seq)) for seq in lengths])
        levels.update({(head, seq): 1e-12 / rate(causal, seq) for seq in lengths})
        # Unmasked: H100's gain of the unmasked over the masked rate at each length.
        full = curve([(seq, 1e12 * best.level(head, seq) * whole[head, True, min(seq, 16384)] /
                       whole[head, False, min(seq, 16384)]) for seq in lengths])
        for is_causal, p in ((False, full), (True, causal)):
            back = curve([(seq, 1 / (rate(p, seq) * ratio[head, is_causal, min(seq, 16384)])) for seq in lengths])
            rates.append({"head_dim": head, "causal": is_causal, "forward": as_json(p), "backward": as_json(back)})
    rows = collection(table, source, gpu)
    report = split_errors(lambda r: best.at_level(r, levels[r[:2]]), [r for r in rows if not held_back(*r[:3])],
                          [r for r in rows if held_back(*r[:3])])
    return section("TensorRT-LLM prefill attention of FlashInfer", "aic-attention, fa2-figure, fa3-figure", report,
                   rates, occupancy_json(best, "aic-attention", source),
                   "forward, causal only is measured; unmasked and backward by the ratios of the kernels on H100")

"""Collectives inside a node.

Source: NVIDIA's nccl-tests tables of one node (2, 4, 8 GPUs; all operations, one library version); V100 has vTrain's
all_reduce only, whose halves stand in for all_gather and reduce_scatter. Send: vidur's pairs.
Form: t = (a + size f / busbw + c sqrt(size)) exp(R) by operation and ranks; R, one line for all ranks of an operation, is
its switches of wire protocol. NCCL multiplies a ring's thresholds by the number of ranks (src/graph/tuning.cc), and so do
the steps in the tables: 1 MiB to 4 MiB a rank on every GPU, whatever the ranks. R is therefore a line over log2(size /
ranks) for ring operations; on the fitted rows of the five GPUs of the source that lowers p90 for each of the three (0.084 to
0.071, 0.115 to 0.097, 0.070 to 0.066 on average). all_to_all, which is sends, is a line over log2(size) (0.114; by rank 0.134).
What is left over are rows where the tables themselves have fewer bytes take longer (H200 all_to_all of 8: 512 B 11.6 us,
16 KiB 7.3 us), which no time that grows with bytes can follow. A switch with two lines of its own for every operation and
number of ranks, and thresholds of other operations or GPUs, were tried: they fit better and predict held-back rows worse.
Where the held-back rows miss the aim (5 %, p90 15 %), the profile states how far the rows lie from the nearest growing
curves, and for H200, whose switches and SMs are H100's, how far H100's table lies from its own. Tables of other clusters
are shown beside it, messages of 1 MiB and more; the range of the time factor spans their medians.
With in-switch reduction (NVLS: H100, H200 from 5 ranks, Blackwell from 6) an all_reduce sends its bytes once, not f times.
"""
import math
import re

from hardware_fit.numerics import (UNIT_S, beside, errors, fit_positive, hat, held_back, least_absolute, on_knots, other_machines,
                                   percents, rounded, scatter_note)

KNOTS = {"log2_bytes": (9, 13, 15, 18, 20, 21, 22, 23, 24, 26, 29),
         "log2_bytes_per_rank": (6, 10, 12, 15, 17, 18, 19, 20, 21, 22, 24, 28)}
RANKS = (2, 3, 4, 6, 8, 16, 72)
NAMES = {"alltoall": "all_to_all"}
CHANNELS = 24  # of a collective on a node of eight GPUs, an SM each (nccl-log)
LEAST_MOVED = 1 << 20  # bytes; smaller messages are latency, which how a benchmark launches decides


def busbw_factor(op, ranks):
    return {"all_reduce": 2 * (ranks - 1) / ranks, "send": 1.0}.get(op, (ranks - 1) / ranks)


def numbers(path, pattern):
    for line in path.read_text().splitlines():
        found = re.match(pattern, line)
        if found and not line.startswith("#"):
            yield found.groups()


def nccl_tests(path, in_place=False):
    """(size, seconds) of a raw nccl-tests table, out of place; the faster of both where one has outliers."""
    rows = []
    for line in path.read_text().splitlines():
        cells = line.split()
        if len(cells) < 12 or not cells[0].isdigit() or not cells[1].isdigit():
            continue
        first = len(cells) - 8  # after size, count, type, reduction and, in newer versions, root
        time = min(float(cells[first]), float(cells[first + 4])) if in_place else float(cells[first])
        rows.append((float(cells[0]), time * UNIT_S))
    return rows


def base_time(p, cap, factor, size):
    return (p[0] + p[2] * math.sqrt(size)) * UNIT_S + size * factor / (min(p[1], cap) * 1e9)


def argument(op):
    """What the ramp of an operation is a line over."""
    return "log2_bytes" if op == "all_to_all" else "log2_bytes_per_rank"


def slowdown(op, ramp, ranks, size):
    over = argument(op)
    return math.exp(on_knots(KNOTS[over], ramp, math.log2(size if over == "log2_bytes" else size / ranks)))


def monotone(ramp, fits, op):
    """Raises the ramp where it would let more bytes go faster, on any number of ranks: each takes the fit of the nearest,
    and a start-up that grows by rank beyond the largest."""
    ramp = list(ramp)
    over = argument(op)
    knots = KNOTS[over]
    largest = max(fits)
    fewer = max((ranks for ranks in fits if ranks < largest), default=largest)
    by_rank = max(0.0, (fits[largest][0][0] - fits[fewer][0][0]) / max(1, largest - fewer))
    for i in range(1, len(knots)):
        for _ in range(60):
            ok = True
            for (p, cap), ranks in ((fit, ranks) for fit in fits.values() for ranks in RANKS):
                before = 0.0
                p = (p[0] + by_rank * max(0, ranks - largest), *p[1:])
                for step in range(17):
                    size = 2.0 ** (knots[i - 1] + (knots[i] - knots[i - 1]) * step / 16)
                    size *= 1 if over == "log2_bytes" else ranks
                    t = base_time(p, cap, busbw_factor(op, ranks), size) * slowdown(op, ramp, ranks, size)
                    ok = ok and t >= before
                    before = t
            if ok:
                break
            ramp[i] += 0.01
    return [rounded(v, 3) + 0.0 for v in ramp]


def fit_operation(op, rows, nvlink, nvls_from):
    """rows (ranks, size, seconds) -> ({ranks: (p, cap)}, ramp)."""
    fitted = [r for r in rows if not held_back(op, r[0], int(r[1]))]
    counts = sorted({r[0] for r in rows})
    over = argument(op)
    knots = KNOTS[over]
    ramp = [0.0] * len(knots)
    fits = {}
    for _ in range(3):
        for ranks in counts:
            factor = busbw_factor(op, ranks)
            cap = nvlink * (factor if op == "all_reduce" and ranks >= nvls_from else 1.0)
            own = [(r[1], r[2] / slowdown(op, ramp, *r[:2])) for r in fitted if r[0] == ranks]
            p, _ = fit_positive(lambda p, r: base_time(p, cap, factor, r[0]), own,
                                fits[ranks][0] if ranks in fits else (10.0, 0.65 * nvlink, 0.005), restarts=2)
            fits[ranks] = (p, cap)
        data = [(hat(knots, math.log2(r[1] if over == "log2_bytes" else r[1] / r[0])),
                 math.log(r[2] / base_time(*fits[r[0]], busbw_factor(op, r[0]), r[1]))) for r in fitted]
        if len(counts) > 1:
            ramp = least_absolute(data, len(knots), [(i, None, 0.2 * len(fitted)) for i in range(len(knots))], steps=15)
    return fits, monotone(ramp, fits, op)


def aic_rows(tables, system):
    found = {}
    for op, ranks, size, time in numbers(tables / f"nccl-tests/{system}-2to8gpu-1node-all-ops-aiconfigurator.txt",
                                         r"\s*(\w+)\s+(\d+)\s+(\d+)\s+([\d.]+)\s"):
        found.setdefault(NAMES.get(op, op), []).append((int(ranks), float(size), float(time) * UNIT_S))
    return found


def vtrain_rows(tables):
    found = {"all_reduce": []}
    for ranks, size, time in numbers(tables / "nccl-tests/v100-2to8gpu-1node-allreduce-vtrain.txt",
                                     r"\s*(\d+)\s+(\d+)\s+([\d.]+)\s"):
        if int(ranks) in (2, 4, 8):
            found["all_reduce"].append((int(ranks), float(size), float(time) * UNIT_S))
    return found


def entry(op, ranks, fit, nvls, source, rows, error, **more):
    p, cap = fit
    return {"op": op, "ranks": ranks, **({"algorithm": "nvls"} if nvls else {}), "a": rounded(p[0]),
            "busbw": rounded(min(p[1], cap)), "c": rounded(p[2]) if p[2] > 1e-6 else 0.0, "source": source, "rows": rows,
            "fit_error": error, **more}


def single_node(tables, system, nvlink, nvls_from, source, send):
    """(report, collectives, ramps) of a GPU's nodes."""
    found = vtrain_rows(tables) if system == "v100" else aic_rows(tables, system)
    collectives, ramps, pairs, held, drawn, judged = [], {}, [], [], [], []
    for op, rows in sorted(found.items()):
        fits, ramp = fit_operation(op, rows, nvlink, nvls_from)

        def time(r):
            p, cap = fits[r[0]]
            return base_time(p, cap, busbw_factor(op, r[0]), r[1]) * slowdown(op, ramp, *r[:2])
        for ranks in sorted(fits):
            own = [r for r in rows if r[0] == ranks]
            collectives.append(entry(op, ranks, fits[ranks], op == "all_reduce" and ranks >= nvls_from, source, len(own),
                                     errors(time, own)))
        if any(ramp):
            ramps[op] = {argument(op): list(KNOTS[argument(op)]), "slowdown": ramp}
        for r in rows:
            kept = held_back(op, r[0], int(r[1]))
            (held if kept else pairs).append((time(r), r[2]))
            (judged if kept else drawn).append(((op, r[0]), r[1], r[2]))
    if system == "v100":
        for made in ("all_gather", "reduce_scatter"):
            for c in [c for c in collectives if c["op"] == "all_reduce"]:
                collectives.append({**c, "op": made, "a": rounded(c["a"] / 2), "c": rounded(c["c"] / 2), "status": "proxy",
                                    "reason": "half of an all_reduce; no public table"})
    collectives.append(send)
    report = {"rows": len(pairs), "fit_error": errors(lambda p: p[0], pairs),
              "held_back": {"rows": len(held), **errors(lambda p: p[0], held)}}
    if report["held_back"]["median"] > 0.05 or report["held_back"]["p90"] > 0.15:
        report["note"] = scatter_note(drawn, judged)
        if system == "h200":
            report["note"] += "; H100's table differs by " + percents(errors_against(aic_rows(tables, "h100"), judged))
    return report, collectives, ramps


def errors_against(other, judged):
    """Another table as a prediction of the rows judged, (op, ranks), size, seconds."""
    times = {(op, r[0], r[1]): r[2] for op, rows in other.items() for r in rows}
    return errors(lambda r: times[(*r[0], r[1])], [r for r in judged if (*r[0], r[1]) in times])


def plain_rows(path, op, ranks, columns):
    """(op, ranks, size, seconds) of a table whose lines begin with numbers: `columns` are those of ranks (or None), ranks a node
    (or None), size and microseconds."""
    rows = []
    for line in path.read_text().splitlines():
        cells = line.split()
        if not cells or not cells[0].isdigit():
            continue
        count, local, size, time = (None if c is None else float(cells[c]) for c in columns)
        if (count is None or count in ranks) and (local is None or local == count):
            rows.append((op, int(count or ranks[0]), size, time * UNIT_S))
    return rows


def rows_of(tables, name, op, ranks, columns):
    path = tables / "nccl-tests" / name
    return plain_rows(path, op, ranks, columns) if columns else [(op, ranks[0], *r) for r in nccl_tests(path)]


def other_tables(tables, files, collectives, ramps):
    """Tables of other clusters beside the profile, of messages as a training step has them: (file, op, ranks, columns)."""
    out, compared = [], []
    for name, op, ranks, columns in files:
        rows = [r for r in rows_of(tables, name, op, ranks, columns) if r[2] >= LEAST_MOVED]
        ramp = ramps.get(op, {"slowdown": [0.0] * len(KNOTS[argument(op)])})["slowdown"]
        fits = {c["ranks"]: c for c in collectives if c["op"] == op}

        def time(r, op=op, ramp=ramp, fits=fits):
            fit = fits[r[1]]
            return base_time((fit["a"], fit["busbw"], fit["c"]), 1e9, busbw_factor(op, r[1]), r[2]) * slowdown(op, ramp, r[1], r[2])
        out.append(beside(name.removesuffix(".txt"), time, rows))
        compared.append((time, rows))
    return out, other_machines(compared) if compared else None


def send_entry(tables, system, share=1.0, reason=None):
    rows = [(float(size), float(time) * UNIT_S)
            for _, _, size, time in numbers(tables / f"nccl-tests/{system}-dgx-sendrecv-vidur.txt",
                                            r"\s*(2)\s+(2)\s+(\d+)\s+([\d.]+)\s")]
    cap = {"a100": 300.0, "h100": 450.0}[system]
    p, error = fit_positive(lambda p, r: base_time(p, cap, 1.0, r[0]), rows, (10.0, 0.8 * cap, 0.001), restarts=3)
    more = {"status": "proxy", "reason": reason} if reason else {}
    return entry("send", 2, ((p[0], min(p[1], cap) * share, p[2]), cap * share), False, "vidur", len(rows), error, **more)

"""Collectives inside a node and between nodes.

Inside a node: nccl-tests tables by NVIDIA, t = a + size f / busbw + c sqrt(size) by (op, ranks). Send: vidur's pairs.
Between nodes: NCCL sends a ring by one of three wire protocols (LL, LL128, Simple) and takes the fastest. A protocol
costs base + steps, a step between nodes or inside one, in the ratio of NCCL's own latency constants; only Simple has
the whole bandwidth. A ring of N nodes takes N - 1 steps between nodes a pass; small all_reduces (LL) run on trees of
depth ceil(log2 N). The NIC's usable rate is the maintainers' figure, not fitted. A protocol that is never the fastest
for any size from 1 KiB to 16 GiB on 2 to 128 nodes is dropped.
"""
import math
import re
from statistics import median

from hardware_fit.numerics import UNIT_S, fit_positive, proxy, rounded, stated

def busbw_factor(op, ranks):
    return {"all_reduce": 2 * (ranks - 1) / ranks, "send": 1.0}.get(op, (ranks - 1) / ranks)


def numbers(path, pattern):
    for line in path.read_text().splitlines():
        found = re.match(pattern, line)
        if found and not line.startswith("#"):
            yield found.groups()


def intra_node_block(tables, system, nvlink):
    out = []

    def add(op, ranks, rows, source):
        factor = busbw_factor(op, ranks)
        # What crosses a GPU's links: with in-switch reduction an all_reduce sends its bytes once, not factor times.
        cap = nvlink * (factor if op == "all_reduce" else 1.0)

        def time(p, r):
            return (p[0] + p[2] * math.sqrt(r[0])) * UNIT_S + r[0] * factor / (min(p[1], cap) * 1e9)

        fits = [fit_positive(time, rows, (10.0, share * nvlink, 0.005)) for share in (0.5, 0.65, 0.8)]
        p, error = min(fits, key=lambda fit: fit[1]["median"] + fit[1]["p90"])
        out.append({"op": op, "ranks": ranks, "a": rounded(p[0]), "busbw": rounded(min(p[1], cap)),
                    "c": rounded(p[2]) if p[2] > 1e-6 else 0.0, "source": source, "rows": len(rows),
                    "fit_error": error})

    found = {}
    for op, ranks, size, time in numbers(tables / f"nccl-tests/{system}-2to8gpu-1node-all-ops-aiconfigurator.txt",
                                         r"\s*(\w+)\s+(\d+)\s+(\d+)\s+([\d.]+)\s"):
        found.setdefault((op, int(ranks)), []).append((float(size), float(time) * UNIT_S))
    for (op, ranks), rows in sorted(found.items()):
        if op in ("all_gather", "all_reduce", "reduce_scatter"):
            add(op, ranks, rows, "aic-nccl")
    pairs = [(float(size), float(time) * UNIT_S)
             for _, _, size, time in numbers(tables / f"nccl-tests/{system}-dgx-sendrecv-vidur.txt",
                                             r"\s*(2)\s+(2)\s+(\d+)\s+([\d.]+)\s")]
    add("send", 2, pairs, "vidur")
    return out


def inter_node_rows(tables, system):
    """(op, nodes, ranks per node, size, seconds), 8 NICs a node."""
    rows = []

    def nccl_tests(name, op, nodes):
        for size, time in numbers(tables / f"nccl-tests/{name}", r"\s*(\d+)\s+\d+\s+\w+\s+\w+\s+([\d.]+)\s"):
            rows.append((op, nodes, 8, float(size), float(time) * UNIT_S))

    if system == "a100":
        nccl_tests("a100-16gpu-2node-allreduce-dgxa100-8xhdr200.txt", "all_reduce", 2)
        nccl_tests("a100-32gpu-4node-allreduce-dgxa100-8xhdr200.txt", "all_reduce", 4)
        nccl_tests("a100-16gpu-2node-allreduce-azure-ndv4-hdr200.txt", "all_reduce", 2)
        return rows
    nccl_tests("h200-16gpu-2node-allgather-gcp-a3ultra-roce.txt", "all_gather", 2)
    nccl_tests("h100-128gpu-16node-allreduce-nccl1469-latency.txt", "all_reduce", 16)
    text = (tables / "nccl-tests/simai-busbw-ratio-1to128node.txt").read_text().split("## nic_ratio")[1].split("##")[0]
    for line in text.splitlines()[2:]:
        cells = line.split(",")
        for nodes, ratio in zip((2, 4, 8, 16, 32, 64, 128), cells[2:9]):
            size = float(cells[0])
            bound = busbw_factor("all_reduce", 8 * nodes) / (8 * 48.5e9)
            rows.append(("all_reduce", nodes, 8, size, size * bound / float(ratio)))
    return rows


def ring_times(p, row, bandwidth, nccl):
    op, nodes, local, size = row[:4]
    passes = 2 if op == "all_reduce" else 1
    times = []
    for i in range(3):
        base, hop, share = p[3 * i], p[3 * i + 1], 1.0 if i == 2 else min(p[3 * i + 2], 1.0)
        depth = math.ceil(math.log2(nodes)) if i == 0 and op == "all_reduce" else nodes - 1
        steps = passes * depth * hop * (1 + (local - 1) * nccl[i])
        times.append((base + steps) * UNIT_S + size * busbw_factor(op, nodes * local) / (bandwidth * share))
    return times


def fit_ring(tables, table, system, nic_rate, nvlink_ring):
    """Protocol lines of the fabric, fitted with the NIC rate and the NVLink ring's busbw (bytes/s) held fixed."""
    latency = table["nccl_tuning"]["hw_latency_us"]
    nccl = [a / b for a, b in zip(latency["NVLINK"]["Ring"], latency["NET"]["Ring"])]
    rows = inter_node_rows(tables, system)
    bound = min(8 * nic_rate, nvlink_ring)
    p, error = fit_positive(lambda p, r: min(ring_times(p, r, bound, nccl)), rows,
                            (30.0, 2.0, 0.05, 40.0, 3.0, 0.5, 80.0, 8.0, 1.0), restarts=4)
    fastest = set()
    for op in ("all_reduce", "all_gather"):
        for nodes in (2, 4, 8, 16, 32, 64, 128):
            for power in range(10, 35):
                times = ring_times(p, (op, nodes, 8, float(1 << power)), bound, nccl)
                fastest.add(times.index(min(times)))
    protocols = [{"name": name, "base": rounded(p[3 * i]), "nic_hop": rounded(p[3 * i + 1]),
                  "nvlink_hop": rounded(p[3 * i + 1] * nccl[i]),
                  "bandwidth_share": 1.0 if i == 2 else rounded(min(p[3 * i + 2], 1.0)),
                  "all_reduce_tree": i == 0}
                 for i, name in enumerate(("LL", "LL128", "Simple")) if i in fastest]
    return {"rows": len(rows), "fit_error": error, "protocols": protocols}


def fabric_block(tables, ring, nics, gigabytes, nics_source, ring_source, reason=None):
    small = [float(time) for _, _, size, time in
             numbers(tables / "nccl-tests/h100-dgx-sendrecv-vidur.txt", r"\s*(2)\s+(1)\s+(\d+)\s+([\d.]+)\s")
             if float(size) <= 65536]
    note = {"status": "proxy", "reason": reason} if reason else {}
    return {
        "nics_per_node": stated(nics, "count", nics_source),
        "nic_bandwidth": stated(gigabytes, "GB/s", "nccl-maintainers"),
        "send_latency": proxy(median(small), "us", "vidur", "one H100 fabric that is not named, messages up to 64 KiB",
                              rows=len(small)),
        "ring": {"source": ring_source, **note, **ring},
        "sm_share": stated(0.02, "share of SMs", "calculon"),
    }

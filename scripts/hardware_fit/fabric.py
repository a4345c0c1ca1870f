"""Collectives between nodes.

NCCL sends a ring by one of three wire protocols (LL, LL128, Simple) and takes the fastest. A protocol costs base +
steps, a step between nodes or inside one, in the ratio of NCCL's own latency constants; only Simple has the whole
bandwidth. A ring of N nodes takes N - 1 steps between nodes a pass; small all_reduces (LL) run on trees of depth
ceil(log2 N). The NIC's usable rate is the maintainers' figure, not fitted. A protocol that is never the fastest for any
size from 1 KiB to 16 GiB on 2 to 128 nodes is dropped.
Chunks follow one another along a ring; with the best chunk for each size, filling and draining the pipe adds
2 sqrt(hops x wire time) to hops + wire time (the minimum over the chunk size of (steps + chunks) x (latency + chunk /
bandwidth)). Whether a fabric's tables show that is told by the fitted rows: with or without, whichever has the lower mean
error there. A100, B200, GH200 and V100 show it; H100, whose rows are mostly a vendor's calibration over 2 to 128 nodes, and
GB200, which has only messages of 512 MiB and more, do not.
Two whole nodes can all_reduce by a tree: each sends its bytes once, so that busbw passes the NICs' rate. It is offered
where a table shows that (H100: AWS p5 and OCI; GH200: CSCS) or passes what a ring inside the node reaches (GB200: two racks
at 812 GB/s a rank, where a tray's ring has 648), with a start-up of its own; where one GPU a node runs on its own NIC (GH200: CSCS), the ring is all there is. SimAI's ratios are of the NICs'
bound, which no such tree keeps: its two nodes ran a ring and are held against one (at 16 GiB 86 ms, the trees of the other
two 66 and 68).

What the error can't fall below: two sources with the same nodes, ranks and sizes differ (A100: DeepOps and Azure by 10 %
median, 61 % p90, as their libraries change protocol at other sizes), and inside one table fewer bytes take longer (V100:
256 KiB 253 us, 1 MiB 225 us; small messages 84 or 130 us in turn). Where the held-back rows miss the aim (12 %, p90 25 %),
the profile states how far they lie from a curve of their own for every placement that is bound only to grow with bytes
(isotonic regression of log time), drawn through the fitted rows and through all: no model of nodes, ranks and bytes comes
nearer. GH200's
table has steps at 4 KiB (22 to 32 us) and 4 MiB (182 to 293 us) where its network library changes from eager to rendezvous
messages; one table of one pair of nodes does not tell how they move with nodes and ranks, so they are not modelled.
"""
import math
import re
from statistics import median

from hardware_fit.network import CHANNELS, LEAST_MOVED, busbw_factor, nccl_tests, numbers
from hardware_fit.numerics import (UNIT_S, beside, errors, fit_positive, held_back, mean_log_error, proxy, rounded,
                                   scatter_note, stated, time_factor)

WHOLE = 7 / 8  # of a node's NICs, from which it counts as a whole one: a rack is often run with 64 of its 72 GPUs
USABLE = {100: 12.0, 200: 24.0, 400: 47.0}  # GB/s per NIC by Gb/s (nccl-maintainers)


def table_rows(tables, name, op, nodes, local, nics, rate, **how):
    return [(op, nodes, local, nics * rate * 1e9, size, time)
            for size, time in nccl_tests(tables / "nccl-tests" / name, **how) if size >= 8]


def simai_rows(tables):
    rows = []
    text = (tables / "nccl-tests/simai-busbw-ratio-1to128node.txt").read_text().split("## nic_ratio")[1].split("##")[0]
    for line in text.splitlines()[2:]:
        cells = line.split(",")
        for nodes, ratio in zip((2, 4, 8, 16, 32, 64, 128), cells[2:9]):
            size = float(cells[0])
            rows.append(("all_reduce", nodes, 8, 8 * 47e9, size,
                         size * busbw_factor("all_reduce", 8 * nodes) / (8 * 48.5e9) / float(ratio)))
    return rows


def healthy_rows(tables, system):
    """(op, nodes, ranks a node, NIC bytes/s a node, size, seconds)"""
    if system == "a100":
        return (table_rows(tables, "a100-16gpu-2node-allreduce-dgxa100-8xhdr200.txt", "all_reduce", 2, 8, 8, 24) +
                table_rows(tables, "a100-32gpu-4node-allreduce-dgxa100-8xhdr200.txt", "all_reduce", 4, 8, 8, 24) +
                table_rows(tables, "a100-16gpu-2node-allreduce-azure-ndv4-hdr200.txt", "all_reduce", 2, 8, 8, 24) +
                table_rows(tables, "a100-16gpu-2node-allreduce-oci-bmgpub4.txt", "all_reduce", 2, 8, 8, 24))
    if system == "h100":
        return (table_rows(tables, "h200-16gpu-2node-allgather-gcp-a3ultra-roce.txt", "all_gather", 2, 8, 8, 47) +
                table_rows(tables, "h100-128gpu-16node-allreduce-nccl1469-latency.txt", "all_reduce", 16, 8, 8, 47) +
                simai_rows(tables))
    if system == "v100":
        return table_rows(tables, "v100-16gpu-2node-allreduce-dgx1-2x100gbe-roce.txt", "all_reduce", 2, 8, 2, 12,
                          in_place=True)
    if system == "gh200":
        return (table_rows(tables, "gh200-8gpu-2node-allreduce-cscs-slingshot.txt", "all_reduce", 2, 4, 4, 24) +
                table_rows(tables, "gh200-2gpu-2node-allreduce-cscs-1nic.txt", "all_reduce", 2, 1, 1, 24))
    if system == "b200":
        factor = busbw_factor("all_reduce", 32)
        return [("all_reduce", 4, 8, 8 * 47e9, float(size), float(size) * factor / (float(rate) * 1e9))
                for size, _, rate in numbers(tables / "nccl-tests/b200-1node-vs-4node-allreduce-mleng.txt",
                                             r"\s*(\d+)\s+([\d.]+)\s+([\d.]+)") if float(rate) >= 1]
    return table_rows(tables, "gb200-1440gpu-20rack-allreduce-coreweave.txt", "all_reduce", 20, 72, 72, 47)


def other_fabrics(tables, system):
    """Tables not fitted, of this GPU's nodes on other NICs too: (what, rows)."""
    if system == "a100":
        return [("2 nodes, FAIR cluster", table_rows(tables, "a100-16gpu-2node-allreduce-fair-gcm.txt", "all_reduce", 2, 8, 8, 24)),
                ("2 AWS p4de nodes, 4 x 100 Gb/s EFA",
                 table_rows(tables, "a100-16gpu-2node-allreduce-aws-p4de-efa400.txt", "all_reduce", 2, 8, 4, 12)),
                ("3 nodes, 4 x HDR 200 Gb/s", table_rows(tables, "a100-24gpu-3node-allreduce-nccltests119-4xhdr.txt",
                                                         "all_reduce", 3, 8, 4, 24))]
    return []


def fitted_tables(rows):
    """The rows of the fit by where they were measured."""
    places = {}
    for r in rows:
        places.setdefault(r[:4], []).append(r)
    return [(f"fitted: {nodes} nodes of {local}, {op}", found) for (op, nodes, local, _), found in places.items()]


def pair_rows(tables, system):
    if system == "h100":
        return (table_rows(tables, "h100-16gpu-2node-allreduce-aws-p5-efa3200.txt", "all_reduce", 2, 8, 8, 47) +
                table_rows(tables, "h100-16gpu-2node-allreduce-oci-rdma.txt", "all_reduce", 2, 8, 8, 47))
    if system == "gb200":
        return table_rows(tables, "gb200-128rank-2rack-allreduce-coreweave.txt", "all_reduce", 2, 64, 64, 47)
    return []


def step_time(p, i, row, nccl):
    op, nodes, local = row[:3]
    depth = math.ceil(math.log2(nodes)) if i == 0 and op == "all_reduce" else nodes - 1
    return (2 if op == "all_reduce" else 1) * depth * p[3 * i + 1] * (1 + (local - 1) * nccl[i])


def ring_times(p, row, ring, in_node, nccl, free_share, fill, all_rails):
    op, nodes, local, rails, size = row[:5]
    times = []
    for i in range(len(p) // 3):
        share = min(p[3 * i + 2], 1.0) if i < 2 or free_share or i == 3 else 1.0
        seconds = size * busbw_factor(op, nodes * local) / min(rails, ring)
        if i == 3:
            if op != "all_reduce" or nodes != 2 or rails < WHOLE * all_rails:
                continue
            seconds = max(size / rails, size * busbw_factor(op, nodes * local) / in_node)
        hops, wire = step_time(p, i, row, nccl) * UNIT_S, seconds / share
        times.append(p[3 * i] * UNIT_S + hops + wire + (2 * math.sqrt(hops * wire) if fill else 0))
    return times


def fit_ring(tables, table, system, ring, in_node):
    """Protocol lines of the fabric, fitted with the NIC rate and the NVLink ring's busbw (bytes/s) held fixed."""
    plain, filled = (fit_protocols(tables, table, system, ring, in_node, fill) for fill in (False, True))
    return min(plain, filled, key=lambda fit: fit[0])[1]


def fit_protocols(tables, table, system, ring, in_node, fill):
    """(mean log error on the fitted rows, the fit as a profile holds it)"""
    latency = table["nccl_tuning"]["hw_latency_us"]
    nccl = [a / b for a, b in zip(latency["NVLINK"]["Ring"], latency["NET"]["Ring"])]
    nccl.append(latency["NVLINK"]["Tree"][2] / latency["NET"]["Tree"][2])
    rows = healthy_rows(tables, system)
    tree = system == "gh200"
    free_share = system == "gb200"
    start = (30.0, 2.0, 0.05, 40.0, 3.0, 0.5, 80.0, 8.0, 0.9) + ((80.0, 8.0, 0.9) if tree else ())
    fitted = [r for r in rows if not held_back(system, *r[:3], int(r[4]), round(r[5] * 1e9))]
    held = [r for r in rows if held_back(system, *r[:3], int(r[4]), round(r[5] * 1e9))]

    pairs = pair_rows(tables, system)
    all_rails = max(r[3] for r in rows + pairs)
    rings = 3 if pairs else None  # of these tables; the tree below comes from the tables of pairs

    def time(p, r):
        times = ring_times(p, r, ring, in_node, nccl, free_share, fill, all_rails)
        return min(times if r in pairs else times[:rings])
    p, _ = fit_positive(time, fitted, start, restarts=3)
    if pairs:
        # Start-up only: its bandwidth is the slower of the NICs and the switch.
        own = [r for r in pairs if not held_back(system, *r[:3], int(r[4]), round(r[5] * 1e9))]
        large = [r for r in own if r[4] >= 1 << 20]

        def pair_time(q, r):
            return ring_times([1e9, 1, 1] * 3 + [q[0], 0.0, q[1]], r, ring, in_node, nccl, True, fill,
                              all_rails)[-1]
        q, _ = fit_positive(pair_time, large, (80.0, 0.9), restarts=3)
        p = list(p) + [q[0], 0.0, q[1]]
        fitted += own
        held += [r for r in pairs if held_back(system, *r[:3], int(r[4]), round(r[5] * 1e9))]
    fastest = set()
    for op in ("all_reduce", "all_gather"):
        for nodes in (2, 4, 8, 16, 32, 64, 128):
            for power in range(10, 35):
                times = ring_times(p, (op, nodes, rows[0][2], rows[0][3], float(1 << power)), ring, in_node, nccl,
                                   free_share, fill, all_rails)
                fastest.add(times.index(min(times)))
    protocols = []
    for i, name in enumerate(("LL", "LL128", "Simple", "two-node tree")[:len(p) // 3]):
        if i not in fastest:
            continue
        share = 1.0 if i == 2 and not free_share else rounded(min(p[3 * i + 2], 1.0))
        protocols.append({"name": name, "base": rounded(p[3 * i]), "nic_hop": rounded(p[3 * i + 1]),
                          "nvlink_hop": rounded(p[3 * i + 1] * nccl[i]), "bandwidth_share": share,
                          "all_reduce_tree": i == 0, **({"two_node_tree": True} if i == 3 else {})})
    report = {"rows": len(fitted), "fit_error": errors(lambda r: time(p, r), fitted)}
    tables_beside = [(what, [r for r in found if r[4] >= LEAST_MOVED]) for what, found in
                     fitted_tables(rows) + fitted_tables(pairs) + other_fabrics(tables, system)]
    spread = [beside(what, lambda r: time(p, r), found) for what, found in tables_beside if found]
    if held:
        report["held_back"] = {"rows": len(held), **errors(lambda r: time(p, r), held)}
        if report["held_back"]["median"] > 0.12 or report["held_back"]["p90"] > 0.25:
            report["note"] = scatter_note(*([(r[:4], r[4], r[5]) for r in part] for part in (fitted, held)))
    return mean_log_error(lambda r: time(p, r), fitted), {**report, "spread": spread, **({"pipeline_fill": True} if fill else {}),
                                                          "protocols": protocols}


def sends(tables, system):
    """(bytes, us) of vidur's pairs on two nodes."""
    return [(float(size), float(time)) for _, _, size, time in
            numbers(tables / f"nccl-tests/{system}-dgx-sendrecv-vidur.txt", r"\s*(2)\s+(1)\s+(\d+)\s+([\d.]+)\s")]


def send_latency(tables):
    small, other = ([time for size, time in sends(tables, system) if size <= 65536] for system in ("h100", "a100"))
    return proxy(median(small), "us", "vidur", "one H100 fabric that is not named, messages up to 64 KiB",
                 rows=len(small), range=sorted([median(small), median(other)]),
                 note="the range reaches to the same messages between the A100 nodes of the same collection")


def send_wire(tables):
    """A PyTorch send of the largest messages against the NIC's usable rate; the H100 collection's fabric is not named, and the A100
    one's is far under any that is."""
    size, time = max(sends(tables, "h100"))
    return stated(1.0, "ratio of time", "vidur", rows=1, range=[1.0, rounded(USABLE[400] * 1e3 * time / size, 3)],
                  note="the range reaches to a send of PyTorch on 400 Gb/s, if the collection's fabric is that")


def omni_path(table, nics):
    """NIC rate of the nodes with Omni-Path whose all_reduce between two nodes was measured, GB/s. The figure is read as nccl-tests' bus
    bandwidth, as its author's tables are; the range reaches to that of two nodes of four GPUs if it was the algorithm's."""
    gigabits = int(re.search(r"(\d+) Gb/s per node", table["cloud_networks"]["JeanZay Omni-Path (BLOOM)"]["value"])[1])
    rate = gigabits / 8 / nics
    return stated(rounded(rate), "GB/s", "jean-zay", rows=1, range=[rounded(rate), rounded(rate * busbw_factor("all_reduce", 8))],
                  note=f"{gigabits} Gb/s a node of {100 * nics}, measured; the range reaches to an algorithm bandwidth of that, two nodes of four GPUs")


def fabric_block(tables, ring, nics, gigabits, nics_source, ring_source, sms, reason=None, others=False, rate=None):
    note = {"status": "proxy", "reason": reason} if reason else {}
    return {
        "tier": f"{nics} x {gigabits} Gb/s" + (" Omni-Path" if rate else "") + ", one rail a NIC",
        "nics_per_node": stated(nics, "count", nics_source),
        "nic_bandwidth": rate or stated(USABLE[gigabits], "GB/s", "nccl-maintainers",
                                        **({"range": [46.0, 48.0]} if gigabits == 400 else {})),
        "send_latency": send_latency(tables),
        "send_wire_factor": send_wire(tables),
        "time_factor": time_factor(ring["spread"], ring_source + (", other-fabrics" if others else ""), "the range spans the medians of the tables beside the ring, "
                                   "messages of 1 MiB and more"),
        "ring": {"source": ring_source, **note, **ring},
        "sm_share": stated(0.02, "share of SMs", "calculon, nccl-log", range=[0.02, rounded(CHANNELS / sms)]),
    }

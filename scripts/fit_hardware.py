#!/usr/bin/env python3
"""Fits cases/hardware/*.json from raw operator tables.

    scripts/fit_hardware.py TABLES [--out cases/hardware]

TABLES holds gemm.json, attention.json, hardware.json and nccl-tests/*.txt: public operator measurements and datasheet
values, one source key a row. They are not committed; hardware_fit/cookbook_products.json, a smaller one, is. Training-step measurements are never read: those judge the
simulator and may not make it. Plain Python, no randomness: the same tables give the same files byte for byte.

One row in five, by a hash of what it measures, is held back from every fit; a profile shows the error on both sides,
and how the sources that were not chosen lie beside it. A constant's range spans what the sources say, for ensembles; a time
factor (value 1) is what whole tables beside a model say against it, and `other_machines` how far their single shapes lie once
each table's own median is taken out: the error that an ensemble draws shape by shape (where there is no other table,
that on the rows held back).
The rules by which a source is chosen stand at the top of each file in hardware_fit/. They rest on what the operator
tables say, nothing else.

Names: a node, then its NICs where they are not the usual ones: dgx-h100-1x100g is a DGX H100 with one 100 Gb/s NIC.
Such a file states its fabric only and is based on the node's. A node is what one NVLink fabric joins: gb200-nvl72 has
72 GPUs.
"""
import argparse
import json
from pathlib import Path

from hardware_fit.alignment import alignment_block, short_product_entry
from hardware_fit.attention import attention_block
from hardware_fit.fabric import fabric_block, fit_ring, omni_path
from hardware_fit.gemm import accumulation, check_transposes, fit_gemm, gemm_rows, tiles_json, transposes_note, two_constants
from hardware_fit.memory import SHARE, memory_block
from hardware_fit.network import (CHANNELS, base_time, busbw_factor, entry, nccl_tests, other_tables, send_entry,
                                  single_node)
from hardware_fit.numerics import (fit_positive, held_back, mean_log_error, measured, proxy, rounded, split_errors,
                                   stated, time_factor)
from hardware_fit.sources import used_sources

HOPPER = {"bf16": 989.4, "fp16": 989.4, "fp8": 1978.9, "fp32": 66.9}
GPUS = {
    "V100": dict(name="V100-SXM2", key="V100-SXM2", sms=80, memory=32, bandwidth=900, nvlink=150, gemm_floor=2.45,
                 peak={"fp16": 125, "fp32": 15.7}),
    "A100": dict(name="A100-SXM4-80GB", key="A100-SXM4-80GB", sms=108, memory=80, bandwidth=2039, nvlink=300,
                 gemm_floor=2.45, best_shape="A100-SXM", peak={"bf16": 312, "fp16": 312, "fp32": 19.5}),
    "H100": dict(name="H100-SXM5-80GB", key="H100-SXM5-80GB", sms=132, memory=80, bandwidth=3350, nvlink=450,
                 gemm_floor=2.45, best_shape="H100", best_bf16="H100", best_fp8="H100", peak=HOPPER),
    "H200": dict(name="H200-SXM-141GB", key="H200-SXM-141GB", sms=132, memory=141, bandwidth=4800, nvlink=450,
                 gemm_floor=2.37, best_shape="H100", best_bf16="H100", best_fp8="H200",
                 peak={"bf16": 989, "fp16": 989, "fp8": 1979, "fp32": 67}),
    "B200": dict(name="B200-SXM", key="B200-SXM", sms=148, memory=180, bandwidth=8000, nvlink=900, gemm_floor=1.79,
                 best_shape="B200", best_bf16="B200", best_fp8="B200",
                 peak={"bf16": 2250, "fp16": 2250, "fp8": 4500, "fp32": 80}),
    "GB200": dict(name="GB200", key="GB200", sms=148, memory=186, bandwidth=8000, nvlink=900, gemm_floor=1.78,
                  best_shape="GB200", best_bf16="GB200", best_fp8="GB200",
                  peak={"bf16": 2500, "fp16": 2500, "fp8": 5000, "fp32": 80}),
}
GRIDS = {"A100": ["aic-a100-sglang", "aic-a100-vllm"], "H100": ["aic-h100-trtllm", "aic-h100-vllm"],
         "H200": ["aic-h200-vllm"], "B200": ["aic-b200-vllm"], "GB200": ["aic-gb200-vllm"]}
NVLS_FROM = {"H100": 5, "H200": 5, "B200": 6, "GB200": 6}
# File, operation, ranks, columns of (ranks, ranks a node, size, us) where the table is no raw output of nccl-tests.
BESIDE = {"A100": [("a100-8gpu-1node-allreduce-mleng.txt", "all_reduce", (8,), (None, None, 0, 1)),
                   ("a100-8gpu-1node-allreduce-superbench.txt", "all_reduce", (8,), None),
                   ("a100-8gpu-1node-allgather-superbench.txt", "all_gather", (8,), None),
                   ("a100-8gpu-1node-reducescatter-superbench.txt", "reduce_scatter", (8,), None),
                   ("a100-8gpu-1node-allreduce-fair-gcm.txt", "all_reduce", (8,), None),
                   ("a100-4gpu-1node-allreduce-llmcompass.txt", "all_reduce", (4,), (None, None, 0, 1)),
                   ("a100-2to8gpu-1node-allreduce-vtrain.txt", "all_reduce", (2, 4, 8), (0, None, 1, 2)),
                   ("a100-dgx-allreduce-vidur.txt", "all_reduce", (2, 4, 8), (0, 1, 2, 3))],
          "H100": [("h100-8gpu-1node-allreduce-nvidia-dgxc.txt", "all_reduce", (8,), None),
                   ("h100-8gpu-1node-allreduce-aws-p5.txt", "all_reduce", (8,), None),
                   ("h100-dgx-allreduce-vidur.txt", "all_reduce", (2, 4, 8), (0, 1, 2, 3))]}
NCCL_WORDS = {"A100": "stas00/ml-engineering, microsoft/superbenchmark, facebookresearch/gcm, LLMCompass, vTrain, microsoft/vidur",
              "H100": "NVIDIA/dgxc-benchmarking, AWS p5, microsoft/vidur"}
FABRIC_WORDS = {"a100": "facebookresearch/gcm (2 nodes), AWS p4de (2 nodes, 4 x 100 Gb/s EFA), NVIDIA/nccl-tests issue 119 "
                        "(3 nodes, 4 x HDR 200 Gb/s)"}
RING_SOURCES = {"a100": "deepops, azure-ndv4, oci-rdma, nccl-tuning",
                "h100": "gcp-a3ultra, simai, nccl-1469, aws-p5, oci-rdma, nccl-tuning",
                "v100": "dgx1-roce, nccl-tuning",
                "gh200": "cscs, nccl-tuning", "b200": "mleng-b200, nccl-tuning", "gb200": "coreweave, nccl-tuning"}
NEAR = {"h100": "H200 nodes with the same NICs and NVLink, a vendor's calibration, cloud nodes; no public DGX H100 sweep",
        "b200": "cloud nodes with EFA; no public sweep of HGX B200 on InfiniBand",
        "gb200": "two tables of large messages; start-up and ramp are hardly determined",
        "gh200": "two nodes only: how start-up grows with nodes is not determined; times jump at 4 KiB (22 to 32 us) "
                 "and 4 MiB (182 to 293 us), where the network library changes to rendezvous messages, which is not "
                 "modelled",
        "v100": "DGX-1 nodes with two 100 GbE NICs"}


def layout(value, indent=0):
    """JSON with one constant, point or fit a line."""
    one_line = json.dumps(value)
    nested = isinstance(value, (dict, list)) and any(isinstance(v, (dict, list)) and v for v in
                                                     (value.values() if isinstance(value, dict) else value))
    constant = isinstance(value, dict) and ("value" in value or "busbw" in value or "head_dim" in value)
    if not isinstance(value, (dict, list)) or (len(one_line) <= 200 and (constant or not nested)):
        return one_line
    pad = "\n" + "  " * (indent + 1)
    left, right = "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, dict):
        parts = [json.dumps(k) + ": " + layout(v, indent + 1) for k, v in value.items()]
    else:
        parts = [layout(v, indent + 1) for v in value]
    return left + pad + ("," + pad).join(parts) + "\n" + "  " * indent + right


class Fitter:
    """Everything fitted once, put together by node."""

    def __init__(self, tables):
        self.tables = tables
        self.data, self.gemm, self.attention = (json.loads((tables / f"{name}.json").read_text())
                                                for name in ("hardware", "gemm", "attention"))
        self.gemm = {"rows": [r for r in self.gemm["rows"] if not r["source"].startswith("fig")]}
        self.made = {}

    def once(self, key, make):
        if key not in self.made:
            self.made[key] = make()
        return json.loads(json.dumps(self.made[key]))

    def check(self, gpu):
        constants = self.data["gpus"][gpu["key"]]
        for key, value in (("sm", gpu["sms"]), ("hbm_bandwidth", gpu["bandwidth"]),
                           ("nvlink_per_direction", gpu["nvlink"]), ("fp16_tensor_dense", gpu["peak"]["fp16"])):
            if constants[key]["value"] != value:
                raise SystemExit(f"{gpu['key']}.{key}: the tables say {constants[key]['value']}, this script {value}")

    def gemm_section(self, name):
        block, chosen, model = self.volta(GPUS[name]) if name == "V100" else self.products(name)
        if name == "A100":
            block["short_products"] = short_product_entry(model)
        elif name != "V100":
            a100 = self.once("gemm-A100", lambda: self.gemm_section("A100"))[0]["short_products"]
            block["short_products"] = proxy(a100["value"], "ratio of time", "cookbook-products", "A100's: no table of this GPU has "
                                            "products of few terms", rows=a100["rows"], range=a100["range"])
        alignment = alignment_block(name)
        return {**block, **({"alignment": alignment} if alignment else {})}, chosen

    def products(self, name):
        gpu = GPUS[name]
        if name in ("A100", "H100"):
            sustained = f"vidur-{name.lower()}"
        else:
            other = self.once("gemm-H100", lambda: self.gemm_section("H100"))[0]["sustained_over_burst"]
            sustained = proxy(other["value"], "ratio", "vidur", "no sustained collection of this GPU: H100's ratio, as "
                              "the power limit is what slows both", rows=other["rows"], range=other["range"])
        return fit_gemm(self.gemm, gpu, GRIDS[name], sustained)

    def volta(self, gpu):
        check_transposes(self.gemm)
        rows = [r for r in gemm_rows(self.gemm, "deepbench-v100") if r[2] <= 10000]
        fitted = [r for r in rows if not held_back(*r[:3])]
        share, (p, time) = min(((share, two_constants(fitted, gpu, share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)),
                               key=lambda tried: mean_log_error(tried[1][1], fitted))
        held = [r for r in rows if held_back(*r[:3])]
        report = split_errors(time, fitted, held)
        fit = ("deepbench", report["rows"], report["fit_error"])
        efficiency = min(p[1], 1.0)
        return {"source": "deepbench", **report, "note": f"{len(held)} rows are held back; " + transposes_note(self.gemm),
                "floor": measured(p[0], "us", *fit),
                "burst_efficiency": measured(efficiency, "share of dense peak", *fit,
                                             range=[min(0.82, rounded(efficiency)), max(0.9, rounded(efficiency))],
                                             note="the range is that of the large products in the table"),
                "sustained_over_burst": proxy(1.0, "ratio", "deepbench", "no sustained collection of V100; these are "
                                              "single kernels at boost clock", range=[0.9, 1.0]),
                "k_ramp": measured(p[2], "elements of k", *fit),
                "memory_share": stated(0.8, "share of HBM bandwidth", "aic-rule"),
                **({"tiles": tiles_json(share)} if share else {}),
                "accumulate_exposed": accumulation(fitted, gpu, share)}, "deepbench-v100", time

    def nvlink(self, name):
        gpu = GPUS[name]
        system, nvls = name.lower(), NVLS_FROM.get(name, 99)
        if name == "V100":
            send = send_entry(self.tables, "a100", 0.5, "no V100 table: A100's, at half the links' rate")
        elif name == "A100":
            send = send_entry(self.tables, "a100")
        elif name in ("B200", "GB200"):
            send = send_entry(self.tables, "h100", 2.0, "no Blackwell table: H100's, at twice the links' rate")
        else:
            send = send_entry(self.tables, "h100", 1.0, "H100's table" if name == "H200" else None)
        source = "vtrain-nccl" if name == "V100" else "aic-nccl"
        report, collectives, ramps = single_node(self.tables, system, gpu["nvlink"], nvls, source, send)
        if name == "GB200":
            collectives.append(self.rack(collectives))
        spread, apart = other_tables(self.tables, BESIDE.get(name, []), collectives, ramps)
        beside_it = {"other_machines": apart, "spread": spread, "time_factor": time_factor(
            spread, "other-nccl", "the range spans the medians of the tables beside this one, messages of 1 MiB and more")} \
            if spread else {}
        sm_share = stated(0.15, "share of SMs", "calculon") if name == "V100" else stated(
            0.15, "share of SMs", "calculon, nccl-log", range=sorted([0.15, rounded(CHANNELS / gpu["sms"])]))
        return {"tier": "NVLink" + (" and NVSwitch" + (", NVLS" if nvls < 99 else "") if name != "V100" else ""),
                "source": source, **report, **beside_it,
                "bandwidth": stated(gpu["nvlink"], "GB/s", "datasheet"), "collectives": collectives,
                **({"ramps": ramps} if ramps else {}),
                "sm_share": sm_share}

    def rack(self, collectives):
        """GB200's all_reduce of a whole rack: the asymptote of 72 ranks; NVIDIA's table has one tray."""
        rows = nccl_tests(self.tables / "nccl-tests/gb200-72gpu-1rack-allreduce-coreweave.txt")
        tray = next(c for c in collectives if c["op"] == "all_reduce" and c["ranks"] == 4)
        factor = busbw_factor("all_reduce", 72)
        cap = GPUS["GB200"]["nvlink"] * factor
        p, error = fit_positive(lambda p, r: base_time((tray["a"], p[0], p[1]), cap, factor, r[0]), rows, (800.0, 0.02))
        return entry("all_reduce", 72, ((tray["a"], p[0], p[1]), cap), True, "coreweave", len(rows), error,
                     note="start-up of one tray's four GPUs")

    def host(self, name):
        if name in ("A100", "V100"):
            # Both eager calls are inference; the same operator takes 6.8 us where autograd records it and 5 where not.
            slowest = rounded(48.2 * 6.8 / 5)
            reason = ("a framework's other ops cost more or less: dispatching the smallest operator and launching its kernel "
                      f"9.1 us, an eager GELU call 48 us, {slowest} us with what recording a gradient adds")
            value, span, null = 44.4, [9.06, slowest], 2.26
        else:
            reason = ("a framework's other ops cost more or less: dispatching the smallest operator and launching its kernel "
                      "9.2 us; A100 hosts 44.4 us")
            value, span, null = 23.8, [9.17, 44.4], 2.37
        if name not in ("A100", "H100"):
            reason = ("A100" if name == "V100" else "H100") + " hosts; " + reason
        # A copy of a list's piece in a library's own loop: no Python, but a view and the copy's dispatch.
        loop, dispatch = 10.26, 6.8
        reason_of_loop = ("wall time of a kernel's launch, the GPU not named; what a library's loop does between launches was not measured "
                          "apart; from a null kernel's launch to that wall time with the dispatch of the copy and of a view, 6.8 us each")
        return {"eager_op": proxy(value, "us", "aic-eager, eager-op", reason, rows=1, range=span),
                "library_op": proxy(loop, "us", "superbench, eager-op", reason_of_loop, rows=1,
                                    range=[null, rounded(loop + 2 * dispatch)]),
                "graph_op": stated(0, "us", "aic-launch", note="what a node of a captured graph costs is inside the "
                                                               "kernel floors, which were measured in graphs")}

    def gpu_part(self, name, title, gpus, gpu_name, **changes):
        gpu = dict(GPUS[gpu_name], **changes)
        self.check(GPUS[gpu_name])
        block, chosen = self.once(f"gemm-{gpu_name}", lambda: self.gemm_section(gpu_name))
        profile = {
            "name": name, "title": title, "gpu": gpu.get("label", gpu["name"]), "sources": {},
            "gpus_per_node": stated(gpus, "count", "mlperf-system"),
            "sm_count": stated(gpu["sms"], "count", "datasheet"),
            "memory": stated(gpu["memory"], "GiB", gpu.get("memory_source", "datasheet")),
            "memory_bandwidth": stated(gpu["bandwidth"], "GB/s", gpu.get("memory_source", "datasheet")),
            "peak": {dtype: stated(rate, "TFLOP/s", "datasheet") for dtype, rate in gpu["peak"].items()},
            "gemm": block,
            "attention": self.once(f"attention-{gpu_name}",
                                   lambda: attention_block(self.attention, gpu_name, GPUS[gpu_name])),
            "memory_ops": memory_block(self.data, self.attention, gpu_name),
            "slowest_gpu": stated(1, "ratio of time", "gpu-variability", range=[1.0, 1.08],
                                  note="a job's ranks wait for its slowest GPU; tables time one"),
            "nvlink": self.once(f"nvlink-{gpu_name}", lambda: self.nvlink(gpu_name)),
            "host": self.host(gpu_name),
        }
        occupancy = profile["attention"]["occupancy"]["note"].split(";")[0]
        return profile, {"gpu": gpu_name, "gemm": chosen, "attention": occupancy, "nccl": NCCL_WORDS.get(gpu_name, ""),
                         "launch": 2.26 if gpu_name in ("A100", "V100") else 2.37}

    def ring(self, system, profile):
        fits = profile["nvlink"]["collectives"]
        ring = max(c["busbw"] for c in fits if c["op"] == "all_gather") * 1e9
        in_node = max(c["busbw"] for c in fits if c["op"] == "all_reduce") * 1e9
        return self.once(f"ring-{system}", lambda: fit_ring(self.tables, self.data, system, ring, in_node))

    def node(self, name, title, gpus, gpu_name, system, nics, gigabits, reason=None, **changes):
        profile, words = self.gpu_part(name, title, gpus, gpu_name, **changes)
        profile["fabric"] = fabric_block(self.tables, self.ring(system, profile), nics, gigabits, "mlperf-system",
                                         RING_SOURCES[system], GPUS[gpu_name]["sms"], reason or NEAR.get(system),
                                         system in FABRIC_WORDS)
        profile["sources"] = used_sources(profile, fabrics=FABRIC_WORDS.get(system, ""), **words)
        return profile

    def omni_path(self, base, system):
        """Jean Zay's nodes: four Omni-Path adapters."""
        profile = {"name": f"{base['name']}-4x100g-opa", "title": "8 A100 80GB a node, 4 x 100 Gb/s Omni-Path, as at Jean Zay",
                   "based_on": base["name"], "sources": {},
                   "fabric": fabric_block(self.tables, self.ring(system, base), 4, 100, "jean-zay", RING_SOURCES[system],
                                          base["sm_count"]["value"], "no table of this fabric by size: the protocols of InfiniBand nodes "
                                          "with these adapters' measured rate", system in FABRIC_WORDS, omni_path(self.data, 4))}
        profile["sources"] = used_sources(profile, gpu="", gemm="", attention="", fabrics=FABRIC_WORDS.get(system, ""))
        return profile

    def variant(self, base, system, nics, gigabits):
        title = (f"{base['title'].split(',')[0]} with {nics} x {gigabits} Gb/s a node" +
                 (", shared by all GPUs" if nics == 1 else ""))
        usual = base["fabric"]["tier"].startswith(f"{nics} x {gigabits} ")
        reason = NEAR.get(system) if usual else ("no public table of such nodes: the protocols of this node's usual "
                                                 "fabric with these NICs' rate")
        profile = {"name": f"{base['name']}-{nics}x{gigabits}g", "title": title, "based_on": base["name"], "sources": {},
                   "fabric": fabric_block(self.tables, self.ring(system, base), nics, gigabits, "definition",
                                          RING_SOURCES[system], base["sm_count"]["value"], reason,
                                          system in FABRIC_WORDS)}
        profile["sources"] = used_sources(profile, gpu="", gemm="", attention="", fabrics=FABRIC_WORDS.get(system, ""))
        return profile


def dgx2(fitter):
    """Sixteen GPUs behind switches: the rows of eight GPUs, whose ring uses all links of a GPU."""
    profile = fitter.node("dgx-2-v100", "DGX-2, 16 V100, 8 x EDR 100 Gb/s", 16, "V100", "v100", 8, 100)
    kept = [c for c in profile["nvlink"]["collectives"] if c["ranks"] == 8 or c["op"] == "send"]
    for c in kept:
        c.update(status="proxy", reason="eight GPUs of a node without switches; a ring of eight uses every link, as here")
    profile["nvlink"].update(collectives=kept, tier="NVLink and NVSwitch")
    return profile


def gh200(fitter):
    profile = fitter.node("gh200-4x200g", "4 GH200 a node, 4 x 200 Gb/s Slingshot", 4, "H200", "gh200", 4, 200,
                          label="GH200-96GB", memory=96, bandwidth=4000, memory_source="gh200-datasheet")
    profile["nvlink"]["collectives"] = [c for c in profile["nvlink"]["collectives"] if c["ranks"] <= 4]
    profile["nvlink"]["tier"] = "NVLink, all pairs"
    for section in ("gemm", "attention", "nvlink"):
        profile[section].update(status="proxy", reason="no table of GH200: H200's, which has the same SMs")
    return profile


def nvl72(fitter):
    return fitter.node("gb200-nvl72", "GB200 NVL72, one rack of 72 GPUs, 72 x 400 Gb/s", 72, "GB200", "gb200", 72, 400)


def ideal():
    gpu = GPUS["H100"]

    def as_defined(value, unit):
        return stated(value, unit, "definition")

    profile = {
        "name": "ideal", "title": "Idealised 8-GPU node: layers at H100 peak rates, everything else free",
        "gpu": gpu["name"], "sources": {},
        "gpus_per_node": as_defined(8, "count"), "sm_count": stated(gpu["sms"], "count", "datasheet"),
        "memory": stated(80, "GiB", "datasheet"),
        "memory_bandwidth": stated(gpu["bandwidth"], "GB/s", "datasheet"),
        "peak": {dtype: stated(rate, "TFLOP/s", "datasheet") for dtype, rate in gpu["peak"].items()},
        "gemm": {"floor": as_defined(0, "us"), "burst_efficiency": as_defined(1, "share of dense peak"),
                 "k_ramp": as_defined(0, "elements of k"), "sustained_over_burst": as_defined(1, "ratio"),
                 "memory_share": stated(0, "share of HBM bandwidth", "definition", note="0: memory traffic is free")},
        "memory_ops": {"floor": as_defined(0, "us"), "shares": {"default": as_defined(1, SHARE)}},
        "free_sites": ["embedding", "final_norm", "head", "loss", "pipeline", "gradients", "optimizer"],
        "free_communication": True,
    }
    profile["sources"] = used_sources(profile)
    return profile


def profiles(fitter):
    yield ideal()
    bases = [
        ("a100", fitter.node("dgx-a100-40g", "DGX A100 40GB, 8 x HDR 200 Gb/s", 8, "A100", "a100", 8, 200,
                             label="A100-SXM4-40GB", memory=40, bandwidth=1555)),
        ("a100", fitter.node("dgx-a100-80g", "DGX A100 80GB, 8 x HDR 200 Gb/s", 8, "A100", "a100", 8, 200)),
        ("h100", fitter.node("dgx-h100", "DGX H100, 8 x NDR 400 Gb/s", 8, "H100", "h100", 8, 400)),
        ("h100", fitter.node("dgx-h200", "DGX H200, 8 x NDR 400 Gb/s", 8, "H200", "h100", 8, 400)),
        ("b200", fitter.node("hgx-b200", "HGX B200, 8 x NDR 400 Gb/s", 8, "B200", "b200", 8, 400)),
    ]
    for system, base in bases:
        yield base
        for nics in (1, 4, 8):
            for gigabits in (100, 200, 400):
                yield fitter.variant(base, system, nics, gigabits)
        if base["name"] == "dgx-a100-80g":
            yield fitter.omni_path(base, system)
    yield nvl72(fitter)
    yield gh200(fitter)
    yield dgx2(fitter)
    yield fitter.node("v100-1x100g", "8 V100 a node, NVLink without switches, one 100 Gb/s NIC", 8, "V100", "v100", 1,
                      100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", type=Path, help="folder with gemm.json, attention.json, hardware.json, nccl-tests/")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent / "cases" / "hardware")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for profile in profiles(Fitter(options.tables)):
        path = options.out / f"{profile['name']}.json"
        path.write_text(layout(profile) + "\n")
        print(path, flush=True)


if __name__ == "__main__":
    main()

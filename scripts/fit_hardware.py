#!/usr/bin/env python3
"""Fits cases/hardware/*.json from raw operator tables.

    scripts/fit_hardware.py TABLES [--out cases/hardware]

TABLES holds gemm.json, attention.json, hardware.json and nccl-tests/*.txt: public operator measurements and datasheet
values, one source key a row. They are not committed. Training-step measurements are never read: those judge the
simulator and may not make it. Plain Python, no randomness: the same tables give the same files byte for byte.

The rules by which a source is chosen stand above each fit in hardware_fit/. They rest on what the
operator tables say, nothing else.
"""
import argparse
import json
from pathlib import Path

from hardware_fit.compute import SHARE, attention_block, fit_gemm, memory_block
from hardware_fit.network import fabric_block, fit_ring, intra_node_block
from hardware_fit.numerics import stated
from hardware_fit.sources import used_sources


def layout(value, indent=0):
    """JSON with one constant, point or fit a line."""
    one_line = json.dumps(value)
    nested = isinstance(value, (dict, list)) and any(isinstance(v, (dict, list)) and v for v in
                                                     (value.values() if isinstance(value, dict) else value))
    constant = isinstance(value, dict) and ("value" in value or "busbw" in value)
    if not isinstance(value, (dict, list)) or (len(one_line) <= 200 and (constant or not nested)):
        return one_line
    pad = "\n" + "  " * (indent + 1)
    left, right = "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, dict):
        parts = [json.dumps(k) + ": " + layout(v, indent + 1) for k, v in value.items()]
    else:
        parts = [layout(v, indent + 1) for v in value]
    return left + pad + ("," + pad).join(parts) + "\n" + "  " * indent + right


def datasheet(gpu):
    if gpu == "A100":
        return dict(name="A100-SXM4-80GB", sms=108, bandwidth=2039, nvlink=300,
                    peak={"bf16": 312, "fp16": 312, "fp32": 19.5})
    return dict(name="H100-SXM5-80GB", sms=132, bandwidth=3350, nvlink=450,
                peak={"bf16": 989.4, "fp16": 989.4, "fp8": 1978.9, "fp32": 66.9})


def gpu_block(name, title, data, sheet):
    constants = data["gpus"][sheet["name"]]
    for key, value in (("sm", sheet["sms"]), ("hbm_bandwidth", sheet["bandwidth"]),
                       ("bf16_tensor_dense", sheet["peak"]["bf16"]), ("nvlink_per_direction", sheet["nvlink"]),
                       ("fp32", sheet["peak"]["fp32"])):
        if constants[key]["value"] != value:
            raise SystemExit(f"{sheet['name']}.{key}: the tables say {constants[key]['value']}, this script {value}")
    return {
        "name": name, "title": title, "gpu": sheet["name"], "sources": {},
        "gpus_per_node": stated(8, "count", "mlperf-system"),
        "sm_count": stated(sheet["sms"], "count", "datasheet"),
        "memory": stated(80, "GiB", "datasheet"),
        "memory_bandwidth": stated(sheet["bandwidth"], "GB/s", "datasheet"),
        "peak": {dtype: stated(rate, "TFLOP/s", "datasheet") for dtype, rate in sheet["peak"].items()},
    }


def dgx(gpu, tables, data, gemm, attention):
    sheet = datasheet(gpu)
    burst = ("aic-a100-sglang", "aic-a100-vllm") if gpu == "A100" else ("aic-h100-trtllm", "aic-h100-vllm")
    only = {"rows": [r for r in gemm["rows"] if not r["source"].endswith("-fp8")]}
    block, chosen = fit_gemm(only, f"vidur-{gpu.lower()}", burst, sheet["peak"]["bf16"] * 1e12,
                             sheet["bandwidth"] * 1e9, sheet["sms"])
    collectives = intra_node_block(tables, gpu.lower(), sheet["nvlink"])
    body = {"gemm": block, "attention": attention_block(attention, gpu), "memory_ops": memory_block(data, gpu),
            "nvlink": {"bandwidth": stated(sheet["nvlink"], "GB/s", "datasheet"), "collectives": collectives,
                       "sm_share": stated(0.15, "share of SMs", "calculon")}}
    ring = next(c["busbw"] for c in collectives if c["op"] == "all_gather" and c["ranks"] == 8) * 1e9
    words = {"gpu": gpu, "gemm": chosen, "attention": "aic-a100-sglang" if gpu == "A100" else "aic-h100-trtllm"}
    return sheet, body, ring, words


def ideal():
    sheet = datasheet("H100")

    def as_defined(value, unit):
        return stated(value, unit, "definition")

    return {
        "name": "ideal", "title": "Idealised 8-GPU node: layers at H100 peak rates, everything else free",
        "gpu": sheet["name"], "sources": {},
        "gpus_per_node": as_defined(8, "count"), "sm_count": stated(sheet["sms"], "count", "datasheet"),
        "memory": stated(80, "GiB", "datasheet"),
        "memory_bandwidth": stated(sheet["bandwidth"], "GB/s", "datasheet"),
        "peak": {dtype: stated(rate, "TFLOP/s", "datasheet") for dtype, rate in sheet["peak"].items()},
        "gemm": {"floor": as_defined(0, "us"), "burst_efficiency": as_defined(1, "share of dense peak"),
                 "k_ramp": as_defined(0, "elements of k"), "sustained_over_burst": as_defined(1, "ratio"),
                 "memory_share": stated(0, "share of HBM bandwidth", "definition", note="0: memory traffic is free")},
        "memory_ops": {"floor": as_defined(0, "us"), "shares": {"default": as_defined(1, SHARE)}},
        "free_sites": ["embedding", "final_norm", "head", "loss", "pipeline", "gradients", "optimizer"],
        "free_communication": True,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", type=Path, help="folder with gemm.json, attention.json, hardware.json, nccl-tests/")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent / "cases" / "hardware")
    options = parser.parse_args()
    data, gemm, attention = (json.loads((options.tables / f"{name}.json").read_text())
                             for name in ("hardware", "gemm", "attention"))

    profiles = []
    sheet, body, ring, words = dgx("A100", options.tables, data, gemm, attention)
    profile = {**gpu_block("dgx-a100-80g", "DGX A100 80GB, 8 x HDR 200 Gb/s", data, sheet), **body}
    lines = fit_ring(options.tables, data, "a100", 24e9, ring)
    profile["fabric"] = fabric_block(options.tables, lines, 8, 24, "mlperf-system", "deepops, azure-ndv4, nccl-tuning")
    profiles.append((profile, words))

    sheet, body, ring, words = dgx("H100", options.tables, data, gemm, attention)
    slow = "no public table of H100 nodes on 100 Gb/s; the protocols of the 400 Gb/s fabric with this NIC's rate"
    near = "H200 nodes with the same NICs and NVLink, and a vendor's calibration; no public DGX H100 sweep"
    lines = fit_ring(options.tables, data, "h100", 47e9, ring)
    for name, title, nics, rate, nics_source, reason in (
            ("dgx-h100", "DGX H100, 8 x NDR 400 Gb/s", 8, 47, "mlperf-system", near),
            ("dgx-h100-8x100g", "DGX H100 with one 100 Gb/s NIC per GPU", 8, 12, "definition", slow),
            ("dgx-h100-1x100g", "DGX H100 with a single 100 Gb/s link per node, shared by all GPUs", 1, 12,
             "definition", slow)):
        profile = {**gpu_block(name, title, data, sheet), **body}
        profile["fabric"] = fabric_block(options.tables, lines, nics, rate, nics_source,
                                         "gcp-a3ultra, simai, nccl-1469, nccl-tuning", reason)
        profiles.append((profile, words))
    profiles.append((ideal(), {}))

    options.out.mkdir(parents=True, exist_ok=True)
    for profile, words in profiles:
        profile["sources"] = used_sources(profile, **words)
        path = options.out / f"{profile['name']}.json"
        path.write_text(layout(profile) + "\n")
        print(path)


if __name__ == "__main__":
    main()

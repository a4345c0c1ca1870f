"""Where the constants come from: every source key of the profiles."""
import json
import re

SOURCES = {
    "datasheet": "NVIDIA datasheets and white papers (dense rates, HBM, NVLink line rate), as tabulated by stas00/"
                 "ml-engineering compute/accelerator (CC-BY-SA-4.0) and glennklockwood.com/garden/processors",
    "mlperf-system": "mlcommons/training_results v2.1 and v3.0, NVIDIA system files of DGX-A100 and DGX-H100 (GPUs, "
                     "compute NICs per node)",
    "aic-gemm": "ai-dynamo/aiconfigurator (Apache-2.0): bf16 GEMM grid, CUDA-graph bursts; the {gemm} collection",
    "vidur": "microsoft/vidur data/profiling (MIT): fp16 linear layers, elementwise kernels and send/recv of steady "
             "repeated execution",
    "aic-rule": "ai-dynamo/aiconfigurator (Apache-2.0) system files: memory kernels reach 0.8 of HBM plus 3 us "
                "(an observation of its authors)",
    "fa2-figure": "Dao-AILab/flash-attention (BSD-3) FlashAttention-2 benchmark figure, forward + backward, {gpu}",
    "fa3-figure": "Dao-AILab/flash-attention (BSD-3) FlashAttention-3 benchmark figure, forward, H100 SXM5: its "
                  "FlashAttention-2 and cuDNN bars",
    "aic-attention": "ai-dynamo/aiconfigurator (Apache-2.0): causal prefill attention, {attention} collection",
    "neusight": "sitar-lab/NeuSight operator data, A100 80GB PCIe, fp32",
    "llmcompass": "PrincetonUniversity/LLMCompass ae/figure5: PyTorch fp16 GELU, softmax, LayerNorm on A100, eager",
    "quack": "Dao-AILab/quack (Apache-2.0) bf16 single-row kernel benchmark figure, H100",
    "cookbook": "EleutherAI/cookbook (Apache-2.0) sample transformer results; an A100-class GPU that is not named",
    "aic-nccl": "ai-dynamo/aiconfigurator (Apache-2.0): nccl-tests tables of one node, 2, 4 and 8 GPUs",
    "calculon": "calculon-ai/calculon system files: NVLink collectives take 15 % of the processor, InfiniBand 2 %",
    "nccl-maintainers": "NVIDIA/nccl-tests issues 119 and 290, maintainers: usable 24 GB/s per 200 Gb/s NIC, 12 per "
                        "100 Gb/s, 46 to 48 per 400 Gb/s",
    "nccl-tuning": "NVIDIA/nccl src/graph/tuning.cc (BSD): hardware latencies of ring steps, NVLink and network",
    "deepops": "NVIDIA/deepops documentation (BSD): nccl-tests all_reduce on 2 and 4 DGX A100, 8 x HDR 200 Gb/s",
    "azure-ndv4": "nccl-tests all_reduce on 2 Azure NDv4 nodes (8 x A100, 8 x HDR 200 Gb/s)",
    "gcp-a3ultra": "GoogleCloudPlatform/cluster-toolkit (Apache-2.0): nccl-tests all_gather on 2 A3 Ultra nodes "
                   "(8 x H200, 8 x 400 Gb/s RoCE)",
    "simai": "aliyun/SimAI (Apache-2.0) busbw calibration, nic_ratio: share of the NIC bound by message size for 2 to "
             "128 nodes of 8 GPUs",
    "nccl-1469": "NVIDIA/nccl issue 1469: nccl-tests all_reduce of 8 B to 4 KiB on 16 H100 nodes (its latencies only)",
    "definition": "chosen, not measured: what the profile is defined to be",
}


def used_sources(profile, **words):
    text = json.dumps(profile)
    return {key: SOURCES[key].format_map(words) for key in SOURCES
            if re.search(r'"source": "[^"]*\b' + re.escape(key) + r'\b', text)}

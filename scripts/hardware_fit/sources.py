"""Where the constants come from: every source key of the profiles."""
import json
import re

SOURCES = {
    "datasheet": "NVIDIA datasheets and white papers (dense rates, HBM, NVLink line rate), as tabulated by stas00/"
                 "ml-engineering compute/accelerator (CC-BY-SA-4.0) and glennklockwood.com/garden/processors",
    "gh200-datasheet": "NVIDIA GH200 Grace Hopper datasheet: 96 GB of HBM3 at 4 TB/s; four-way nodes as at CSCS Alps",
    "mlperf-system": "mlcommons system files of NVIDIA and partner submissions: DGX-2H (training v0.7), DGX-A100 (v2.1), "
                     "DGX-H100 (v3.0), H200 (inference v4.1), HGX-B200 (v6.0), GB200 NVL72 (v6.1): GPUs and NICs a node",
    "aic-gemm": "ai-dynamo/aiconfigurator (Apache-2.0): bf16 GEMM grid, CUDA-graph bursts; the {gemm} collection",
    "aic-launch": "ai-dynamo/aiconfigurator (Apache-2.0): smallest bf16 GEMM inside a CUDA graph, time of a call",
    "aic-eager": "ai-dynamo/aiconfigurator (Apache-2.0): custom all-reduce of 1,024 elements on 8 GPUs, called eagerly: 44.4 us "
                 "an op on A100 hosts, 23.8 us on H100 hosts (5.6 and 4.6 us in a CUDA graph)",
    "eager-op": "PyTorch issue 41383: an operator on a tensor of one element with a gradient, 6.8 us of the host, without one 5, beside "
                "arXiv:2504.11750: launch of an empty kernel, {launch} us; LLMCompass ae/figure5: GELU of 1,024 elements "
                "called eagerly on an A100 host, 48.2 us",
    "superbench": "microsoft/superbenchmark (MIT) test baseline: a kernel's launch, 5.96 us of event time and 10.26 us of wall time",
    "nccl-log": "NCCL's own log on 8-GPU nodes with switches (for example in AWS and Meta training READMEs): 24 channels for "
                "collectives, each a thread block on an SM of its own",
    "deepbench": "baidu-research/DeepBench (Apache-2.0) training GEMMs on V100, 16-bit inputs, cuBLAS of CUDA 10.1",
    "mamf": "stas00/ml-engineering maximum achievable matmul FLOPS finder: best sustained shape by GPU and precision",
    "vidur": "microsoft/vidur data/profiling (MIT): fp16 linear layers, elementwise kernels and send/recv of steady "
             "repeated execution",
    "aic-rule": "ai-dynamo/aiconfigurator (Apache-2.0) system files: memory kernels reach 0.8 of HBM plus 3 us "
                "(an observation of its authors)",
    "fa2-figure": "Dao-AILab/flash-attention (BSD-3) FlashAttention-2 benchmark figure, forward + backward, {gpu}",
    "triton-fork": "Dao-AILab/flash-attention flash_attn/flash_attn_triton.py (BSD-3), which mosaicml/llm-foundry copies: a fork of "
                   "the Triton tutorial's kernel; its comment compares it with the CUDA kernel",
    "gpu-variability": "Sinha et al., Not All GPUs Are Created Equal (SC22, arXiv:2208.11035): 8 % average variation, at most 22 %, "
                       "between GPUs of one kind in five clusters",
    "fa3-figure": "Dao-AILab/flash-attention (BSD-3) FlashAttention-3 benchmark figure, forward, H100 SXM5: its "
                  "FlashAttention-2 and cuDNN bars",
    "aic-attention": "ai-dynamo/aiconfigurator (Apache-2.0): causal prefill attention, multi-head rows, {attention} "
                     "collection",
    "neusight": "sitar-lab/NeuSight operator data, A100 80GB PCIe, fp32",
    "llmcompass": "PrincetonUniversity/LLMCompass ae/figure5: PyTorch fp16 GELU, softmax, LayerNorm and products on A100, eager",
    "quack": "Dao-AILab/quack (Apache-2.0) bf16 single-row kernel benchmark figure, H100",
    "cookbook": "EleutherAI/cookbook (Apache-2.0) sample transformer results; an A100-class GPU that is not named",
    "cookbook-products": "EleutherAI/cookbook (Apache-2.0), sizing/results, of Anthony et al. 2024 (arXiv:2401.14489): fp16 batched and single "
                         "products of head sizes and widths that are multiples of 8 or not; commit and rows in "
                         "scripts/hardware_fit/cookbook_products.json",
    "pytorch-83272": "PyTorch issue 83272 (2022, CUDA 11.6): torch.bmm of 140 and of 128 columns in fp16 and bf16, on a GPU that writes 1.3 TB/s",
    "aic-nccl": "ai-dynamo/aiconfigurator (Apache-2.0): nccl-tests tables of one node, 2, 4 and 8 GPUs",
    "vtrain-nccl": "VIA-Research/vTrain NCCL tables: all_reduce of 2 to 8 V100 in one node",
    "other-nccl": "all_reduce, all_gather and reduce_scatter in one node as others measured them: {nccl}",
    "calculon": "calculon-ai/calculon system files: NVLink collectives take 15 % of the processor, InfiniBand 2 %",
    "nccl-maintainers": "NVIDIA/nccl-tests issues 119 and 290, maintainers: usable 24 GB/s per 200 Gb/s NIC, 12 per "
                        "100 Gb/s, 46 to 48 per 400 Gb/s",
    "nccl-tuning": "NVIDIA/nccl src/graph/tuning.cc (BSD): hardware latencies of ring steps, NVLink and network",
    "jean-zay": "stas00/ml-engineering network (CC-BY-SA-4.0), Omni-Path: Jean Zay's nodes of 4 x 100 Gb/s in 2022, only 135 Gb/s, the same "
                "a year later; bigscience-workshop/bigscience, experiments: all_reduce between two of its nodes",
    "other-fabrics": "collectives between nodes as others measured them: {fabrics}",
    "deepops": "NVIDIA/deepops documentation (BSD): nccl-tests all_reduce on 2 and 4 DGX A100, 8 x HDR 200 Gb/s",
    "azure-ndv4": "nccl-tests all_reduce on 2 Azure NDv4 nodes (8 x A100, 8 x HDR 200 Gb/s)",
    "gcp-a3ultra": "GoogleCloudPlatform/cluster-toolkit (Apache-2.0): nccl-tests all_gather on 2 A3 Ultra nodes "
                   "(8 x H200, 8 x 400 Gb/s RoCE)",
    "simai": "aliyun/SimAI (Apache-2.0) busbw calibration, nic_ratio: share of the NIC bound by message size for 2 to "
             "128 nodes of 8 GPUs",
    "nccl-1469": "NVIDIA/nccl issue 1469: nccl-tests all_reduce of 8 B to 4 KiB on 16 H100 nodes (its latencies only)",
    "oci-rdma": "Oracle oci-hpc documentation: nccl-tests all_reduce on 2 nodes (8 x H100 and 8 x A100, RoCE)",
    "aws-p5": "AWS nccl-tests all_reduce on 2 p5 nodes (8 x H100, 32 x 100 Gb/s EFA)",
    "mleng-b200": "stas00/ml-engineering network (CC-BY-SA-4.0): nccl-tests all_reduce on 4 B200 nodes, 8 x 400 Gb/s EFA",
    "coreweave": "coreweave/nccl-tests README: all_reduce of 72, 128 and 1,440 GB200 in 1, 2 and 20 racks",
    "cscs": "eth-cscs/cscs-docs: nccl-tests all_reduce on 2 nodes of 4 GH200, 4 x 200 Gb/s Slingshot",
    "dgx1-roce": "NVIDIA/deepops RoCE page (BSD): nccl-tests all_reduce on 2 DGX-1 V100, 2 x 100 GbE",
    "definition": "chosen, not measured: what the profile is defined to be",
}


def used_sources(profile, **words):
    text = json.dumps(profile)
    return {key: SOURCES[key].format_map(words) for key in SOURCES
            if re.search(r'"source": "[^"]*\b' + re.escape(key) + r'\b', text)}

#!/usr/bin/env python3
"""Loss and every gradient of two tiny models, computed by PyTorch in fp32: the truth that shares no code with the engine.

Writes tests/golden/gpt.json and tests/golden/llama.json, which tests/engine/train/test_golden.cpp compares with the engine. Only
needed when a model's definition changes: Debian's python3-torch (1.13), then

    /usr/bin/python3 scripts/make_golden.py

Initial values and tokens are made here again from their definition: Philox 4x32-10 (Salmon et al. 2011) keyed by the seed, with the
element's global index and the FNV-1a hash of the parameter's name as counter.
"""

import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

SEED = 1234
SAMPLES = 2
MODELS = {
    "gpt": dict(family="gpt", layers=2, hidden=16, ffn_hidden=40, heads=4, kv_heads=4, seq=8, vocab=128, dropout=0),
    "llama": dict(family="llama", layers=2, hidden=16, ffn_hidden=24, heads=4, kv_heads=2, seq=8, vocab=128, dropout=0,
                  rope_theta=10000),
}
EPSILON = 1e-5
TOKEN_STREAM = 0x746F6B65
WORD = np.uint64(0xFFFFFFFF)


def philox(seed, counter):
    """Words of Philox 4x32-10. `counter`: four arrays of 32-bit numbers."""
    c = [np.asarray(x, dtype=np.uint64) & WORD for x in counter]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        left = np.uint64(0xD2511F53) * c[0]
        right = np.uint64(0xCD9E8D57) * c[2]
        c = [(right >> np.uint64(32)) ^ c[1] ^ np.uint64(key[0]), right & WORD,
             (left >> np.uint64(32)) ^ c[3] ^ np.uint64(key[1]), left & WORD]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def fnv1a(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def normal(name, rows, columns, deviation):
    index = np.arange(rows * columns, dtype=np.uint64)
    stream = fnv1a(name)
    zeros = np.zeros_like(index)
    words = philox(SEED, [index & WORD, index >> np.uint64(32), zeros + np.uint64(stream & 0xFFFFFFFF),
                          zeros + np.uint64(stream >> 32)])
    u, v = [(word >> np.uint64(8)).astype(np.float64) * 2.0**-24 for word in words[:2]]
    values = np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * math.pi * v) * deviation
    return torch.tensor(values.astype(np.float32).reshape(rows, columns), requires_grad=True)


def tokens_of(model):
    """[samples, seq + 1]: inputs and, shifted by one, labels."""
    samples, positions = np.meshgrid(np.arange(SAMPLES), np.arange(model["seq"] + 1), indexing="ij")
    word = philox(SEED, [samples, np.zeros_like(samples), positions, np.full_like(samples, TOKEN_STREAM)])[0]
    return torch.tensor(((word * np.uint64(model["vocab"])) >> np.uint64(32)).astype(np.int64))


class Parameters(dict):
    def __init__(self, model):
        super().__init__()
        self.scaled = 0.02 / math.sqrt(2 * model["layers"])

    def matrix(self, name, rows, columns, deviation=0.02):
        self[name] = normal(name, rows, columns, deviation)

    def into_residual(self, name, rows, columns):
        self.matrix(name, rows, columns, self.scaled)

    def vector(self, name, size, value):
        self[name] = torch.full((size,), value, dtype=torch.float32, requires_grad=True)


def causal_attention(q, k, v):
    """q, k, v [samples, heads, seq, d]"""
    seq, d = q.shape[-2:]
    scores = q @ k.transpose(-1, -2) / math.sqrt(d)
    hidden = torch.triu(torch.ones(seq, seq, dtype=torch.bool), 1)
    return torch.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ v


def join(context):
    samples, heads, seq, d = context.shape
    return context.transpose(1, 2).reshape(samples, seq, heads * d)


def gpt(model):
    h, f, a, d = model["hidden"], model["ffn_hidden"], model["heads"], model["hidden"] // model["heads"]
    p = Parameters(model)
    p.matrix("embedding.words", model["vocab"], h)
    p.matrix("embedding.positions", model["seq"], h)
    for layer in range(model["layers"]):
        at = f"layer.{layer}."
        for norm in ("attention.norm", "mlp.norm"):
            p.vector(at + norm + ".gamma", h, 1.0)
            p.vector(at + norm + ".beta", h, 0.0)
        p.matrix(at + "attention.qkv.weight", 3 * h, h)
        p.vector(at + "attention.qkv.bias", 3 * h, 0.0)
        p.into_residual(at + "attention.proj.weight", h, h)
        p.vector(at + "attention.proj.bias", h, 0.0)
        p.matrix(at + "mlp.fc1.weight", f, h)
        p.vector(at + "mlp.fc1.bias", f, 0.0)
        p.into_residual(at + "mlp.fc2.weight", h, f)
        p.vector(at + "mlp.fc2.bias", h, 0.0)
    p.vector("final.norm.gamma", h, 1.0)
    p.vector("final.norm.beta", h, 0.0)

    def norm(x, name):
        return F.layer_norm(x, (h,), p[name + ".gamma"], p[name + ".beta"], EPSILON)

    def logits(tokens):
        x = p["embedding.words"][tokens] + p["embedding.positions"]
        for layer in range(model["layers"]):
            at = f"layer.{layer}."
            n = norm(x, at + "attention.norm")
            qkv = F.linear(n, p[at + "attention.qkv.weight"], p[at + "attention.qkv.bias"])
            q, k, v = qkv.view(*qkv.shape[:2], a, 3, d).permute(3, 0, 2, 1, 4)  # of each head its q, k and v together
            x = x + F.linear(join(causal_attention(q, k, v)), p[at + "attention.proj.weight"], p[at + "attention.proj.bias"])
            n = norm(x, at + "mlp.norm")
            inner = F.gelu(F.linear(n, p[at + "mlp.fc1.weight"], p[at + "mlp.fc1.bias"]), approximate="tanh")
            x = x + F.linear(inner, p[at + "mlp.fc2.weight"], p[at + "mlp.fc2.bias"])
        return F.linear(norm(x, "final.norm"), p["embedding.words"])

    return p, logits


def llama(model):
    h, f, a, u = model["hidden"], model["ffn_hidden"], model["heads"], model["kv_heads"]
    d, served = h // a, a // u
    p = Parameters(model)
    p.matrix("embedding.words", model["vocab"], h)
    for layer in range(model["layers"]):
        at = f"layer.{layer}."
        p.vector(at + "attention.norm.gamma", h, 1.0)
        p.matrix(at + "attention.qkv.weight", (a + 2 * u) * d, h)
        p.into_residual(at + "attention.proj.weight", h, h)
        p.vector(at + "mlp.norm.gamma", h, 1.0)
        p.matrix(at + "mlp.fc1.weight", 2 * f, h)
        p.into_residual(at + "mlp.fc2.weight", h, f)
    p.vector("final.norm.gamma", h, 1.0)
    p.matrix("head.words", model["vocab"], h)

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * p[name + ".gamma"]

    frequencies = model["rope_theta"] ** (-2 * torch.arange(d // 2, dtype=torch.float64) / d)
    angles = torch.outer(torch.arange(model["seq"], dtype=torch.float64), frequencies)
    turns = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)  # [seq, d/2]

    def turn(x):
        """Channels i and i + d/2 as a complex number, turned by the position's angle."""
        turned = torch.complex(*x.chunk(2, -1)) * turns
        return torch.cat([turned.real, turned.imag], -1)

    def logits(tokens):
        x = p["embedding.words"][tokens]
        for layer in range(model["layers"]):
            at = f"layer.{layer}."
            qkv = F.linear(norm(x, at + "attention.norm"), p[at + "attention.qkv.weight"])
            heads = qkv.view(*qkv.shape[:2], u, served + 2, d)  # of each key-value head the queries it serves, then k, v
            q = heads[..., :served, :].reshape(*qkv.shape[:2], a, d).transpose(1, 2)
            k = heads[..., served, :].repeat_interleave(served, 2).transpose(1, 2)
            v = heads[..., served + 1, :].repeat_interleave(served, 2).transpose(1, 2)
            x = x + F.linear(join(causal_attention(turn(q), turn(k), v)), p[at + "attention.proj.weight"])
            both = F.linear(norm(x, at + "mlp.norm"), p[at + "mlp.fc1.weight"])
            x = x + F.linear(F.silu(both[..., 0::2]) * both[..., 1::2], p[at + "mlp.fc2.weight"])
        return F.linear(norm(x, "final.norm"), p["head.words"])

    return p, logits


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    folder.mkdir(exist_ok=True)
    for name, model in MODELS.items():
        parameters, logits = {"gpt": gpt, "llama": llama}[name](model)
        tokens = tokens_of(model)
        loss = F.cross_entropy(logits(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        gradients = {key: [float(f"{x:.9g}") for x in value.grad.flatten().tolist()] for key, value in parameters.items()}
        result = {"source": f"PyTorch {torch.__version__}, fp32, scripts/make_golden.py", "seed": SEED, "samples": SAMPLES,
                  "model": model, "loss": loss.item(), "gradients": gradients}
        (folder / f"{name}.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")
        print(name, loss.item(), sum(map(len, gradients.values())), "gradients")


if __name__ == "__main__":
    main()

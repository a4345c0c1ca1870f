#!/usr/bin/env python3
"""Breaks the engine in a scratch copy, one thing at a time, and notes which tests see it.

    scripts/mutations.py                      all mutations, writes reports/mutations.md
    scripts/mutations.py --set cuda           those of the CUDA device on emulated GPUs, writes reports/cuda_mutations.md
    scripts/mutations.py --set prediction     those of predicted times, memory and intervals, writes reports/prediction_mutations.md
    scripts/mutations.py --only NAME...       some of them, prints the table
    scripts/mutations.py --fit                builds nothing, only says which mutations of any set no longer fit the source
    scripts/mutations.py --scratch DIR        where to copy and build (default: a temporary folder, removed afterwards)

Exit 0: every mutation is caught. 1: one survives. 2: one no longer fits the source or doesn't build.
Only --fit is part of CTest: each mutation compiles and runs the engine's tests, half an hour on two cores. ccache makes a second run fast.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import cuda_mutations
import prediction_mutations

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRAIN, CPU, PROGRAM, SIM = "test_engine_train", "test_engine_device_cpu", "test_engine_program", "test_engine_device_sim"
PROGRAMS = [TRAIN, CPU, PROGRAM, SIM]

# name, file, what is there, what takes its place, and the tests that look first (program, filter); when they see nothing, all do
MUTATIONS = [
    ("drop the tied-embedding all-reduce", "engine/train/step.cpp",
     "  if (context_.faults.drop_tied_embedding_reduce) return;\n",
     "  if (context_.layout.pp > 1) return;\n",
     TRAIN, "Layouts/Parity.*gpt_fp32*pp2*"),
    ("forget the re-gather of a linear's input in backward", "engine/parallel/tensor_region.cpp",
     "(purpose, term, x.dtype, shape);\n  collective(context, OpKind::all_gather, x, full);\n",
     "(purpose, term, x.dtype, shape);\n"
     "  if (context.rec.at().phase != Phase::backward) collective(context, OpKind::all_gather, x, full);\n",
     TRAIN, "Layouts/Parity.*gpt_fp32*tp2_sp*"),
    ("swap micro-batches on later pipeline stages", "engine/train/cpu_host.cpp",
     "(static_cast<std::int64_t>(i) * layout.dp + at.dp)",
     "(static_cast<std::int64_t>(at.pp > 0 && layout.micro_batches() > 1 ? i ^ 1 : i) * layout.dp + at.dp)",
     TRAIN, "Layouts/Parity.*gpt_fp32*pp*"),
    ("scale the loss's gradient by m", "engine/model/head.cpp",
     "static_cast<float>(tokens * context_.layout.micro_batches() * context_.layout.replicas())",
     "static_cast<float>(tokens * context_.layout.replicas())",
     TRAIN, "WholeModel.*:Layouts/Parity.*gpt_fp32*micro_batch_2*:Layouts/Parity.*gpt_fp32*dp2*"),
    ("shift one ZeRO shard", "engine/train/gradient_stores.cpp",
     "  return {context.replica() * count, count};\n",
     "  return {(context.replica() + 1) % context.layout.replicas() * count, count};\n",
     TRAIN, "ZeroParity.*:Layouts/Zero.*dp2"),
    ("reuse a buffer one op early", "engine/model/mlp_block.cpp",
     "  const Tensor dhidden =\n"
     "      activation_backward(context_, dactivated, state.get(Save::fc1_output), parameters_.fc1_bias);\n"
     "  context_.rec.release(dactivated);\n",
     "  context_.rec.release(dactivated);\n"
     "  const Tensor dhidden =\n"
     "      activation_backward(context_, dactivated, state.get(Save::fc1_output), parameters_.fc1_bias);\n",
     TRAIN, "Layouts/Parity.*gpt_fp32*mlp*:Layouts/Zero.TheVerifierAcceptsIt/dp2"),
    ("wrong dropout position under sequence parallelism", "engine/model/pointwise.cpp",
     "context.first_position(), 0, site}", "0, 0, site}",
     TRAIN, "Layouts/Parity.*gpt_fp32*sp*"),
    ("skip the sequence-parallel gradient all-reduce", "engine/train/step.cpp",
     "  if (!context_.sequence_parallel()) return;\n", "  return;\n",
     TRAIN, "Layouts/Parity.*gpt_fp32*sp*"),
    ("forget Adam's bias correction", "engine/device/cpu/optimizer.cpp",
     "lr / (1.0 - std::pow(beta1, step))", "lr",
     CPU, "*"),
    ("wrong residual gradient", "engine/model/attention_block.cpp",
     "add(context_, dx_branch, dy, Term::gradient_of_input)",
     "add(context_, dx_branch, dx_branch, Term::gradient_of_input)",
     TRAIN, "WholeModel.*"),
    ("skip the last micro-batch's gradient reduction", "engine/train/gradient_stores.cpp",
     "    if (last_micro_batch && overlaps(bucket)) reduce(bucket);\n",
     "    if (!last_micro_batch && overlaps(bucket)) reduce(bucket);\n",
     TRAIN, "Layouts/Parity.*gpt_fp32*dp*:ZeroParity.*"),
    ("causal mask shows one key too many", "engine/device/cpu/norm.cpp",
     "    const std::int64_t kept = call.shape.causal ? row % cols + 1 : cols;\n    const float* in = scores",
     "    const std::int64_t kept = call.shape.causal ? std::min(row % cols + 2, cols) : cols;\n    const float* in = scores",
     CPU, "*"),
    ("wrong vocabulary offset in the cross-entropy", "engine/model/head.cpp",
     "  sum.dims[2] = words_.first_row;\n", "  sum.dims[2] = 0;\n",
     TRAIN, "Layouts/Parity.*gpt_fp32*tp*"),
    ("forget to clip", "engine/device/cpu/optimizer.cpp",
     "const float g = gradient[i] * clip;", "const float g = gradient[i] * (clip > 0 ? 1.0f : clip);",
     CPU, "*"),
    ("drop the wait for a result's writer", "engine/program/recorder.cpp",
     "      need(part.writer_stream, part.writer);\n",
     "      if (operand.access != Access::read) need(part.writer_stream, part.writer);\n",
     TRAIN, "Layouts/Zero.TheVerifierAcceptsIt/*:Layouts/Parity.*gpt_fp32*sp*"),
    ("stale persistent parameters under ZeRO-3", "engine/train/parameter_stores.cpp",
     "    if (bucket.persistent && context_.layout.replicas() > 1) {\n",
     "    if (bucket.persistent && context_.layout.replicas() > 2) {\n",
     TRAIN, "Layouts/Zero.*dp2*"),
    ("stale parameters after a ZeRO-1 update", "engine/train/parameter_stores.cpp",
     "    if (context_.layout.zero_stage == 0 || context_.layout.replicas() == 1) return;\n",
     "    if (context_.layout.zero_stage <= 1 || context_.layout.replicas() == 1) return;\n",
     TRAIN, "ZeroParity.*:Layouts/Zero.*dp2"),
    ("decay biases and the weights of norms", "engine/train/optimizer.cpp",
     "{run.decays ? config_.weight_decay : 0.0f}", "{config_.weight_decay}",
     TRAIN, "*Learning*"),
    ("start the warm-up one step late", "engine/train/lr.cpp",
     "return peak * static_cast<double>(step) /", "return peak * static_cast<double>(step > 0 ? step - 1 : 0) /",
     TRAIN, "LearningRate.*"),
    ("name a checkpoint before it is whole", "engine/train/checkpoint.cpp",
     "  rename_synced(temporary, final, dir_);\n"
     "  committed_ = true;\n"
     "  write_text(dir_ + \"/\" + kLatest + \".tmp\", name_ + \"\\n\");\n"
     "  rename_synced(dir_ + \"/\" + kLatest + \".tmp\", dir_ + \"/\" + kLatest, dir_);\n",
     "  write_text(dir_ + \"/\" + kLatest + \".tmp\", name_ + \"\\n\");\n"
     "  rename_synced(dir_ + \"/\" + kLatest + \".tmp\", dir_ + \"/\" + kLatest, dir_);\n"
     "  rename_synced(temporary, final, dir_);\n"
     "  committed_ = true;\n",
     TRAIN, "Checkpoint.*"),
    ("collapse ranks whether or not they are images of each other", "engine/device/sim/priced_world.cpp",
     "  return classes.reason;\n", "  return {};\n",
     SIM, "Collapse.*"),
    ("collapse ranks that share links with different flows", "engine/device/sim/collapse.cpp",
     "      } else if (own != seen) {\n", "      } else if (own.size() > 1000) {\n",
     SIM, "Collapse.*"),
    ("collapse groups whose transfers cost differently", "engine/device/sim/collapse.cpp",
     "cost.duration != first.duration ||\n", "cost.duration < 0 ||\n",
     SIM, "Collapse.*"),
    ("count siblings on a shared link once", "engine/device/sim/collapse.cpp",
     "push_back({id, own->second});", "push_back({id, std::min(own->second, 1)});",
     SIM, "Collapse.*"),
]

# name: what is broken, the test programs, the report
SETS = {
    "engine": (MUTATIONS, PROGRAMS, "mutations.md"),
    "cuda": (cuda_mutations.MUTATIONS, cuda_mutations.PROGRAMS, "cuda_mutations.md"),
    "prediction": (prediction_mutations.MUTATIONS, prediction_mutations.PROGRAMS, "prediction_mutations.md"),
}


def misfits(mutations):
    """One line for each mutation whose text doesn't stand in its file exactly once, or changes nothing."""
    lines = []
    for name, path, old, new, *_ in mutations:
        file = ROOT / path
        count = file.read_text().count(old) if file.is_file() else 0
        if count != 1:
            lines.append(f"{name}: {path} has its text {count} times, not once")
        elif old == new:
            lines.append(f"{name}: changes nothing")
    return lines


def run(command, **how):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how)


def copy_sources(scratch):
    for name in ("CMakeLists.txt", "CMakePresets.json", "engine", "suite", "tests", "cases", "expected", "scripts", "data"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, scratch / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, scratch / name)


class Bench:
    def __init__(self, scratch, build, programs):
        self.scratch, self.build, self.programs = scratch, build, programs
        # Equal sources in another scratch folder hit the same cache.
        self.environment = dict(os.environ, CCACHE_BASEDIR=os.environ.get("CCACHE_BASEDIR", str(scratch)), CCACHE_NOHASHDIR="1",
                                BENCHSUITE_ROOT=str(scratch), OMP_NUM_THREADS="1")

    def configure(self):
        done = run(["cmake", "-S", self.scratch, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DBENCHSUITE_BENCHMARKS=OFF"], env=self.environment)
        if done.returncode:
            sys.exit(f"mutations: CMake fails:\n{done.stdout[-2000:]}")

    def compile(self, *programs):
        targets = [pathlib.PurePath(program).name for program in programs]
        return run(["cmake", "--build", self.build, "--target", *targets], env=self.environment)

    def failures(self, program, look="*"):
        try:
            done = run([self.build / "tests" / program, "--gtest_brief=1", f"--gtest_filter={look}"], env=self.environment,
                       timeout=900)
        except subprocess.TimeoutExpired:
            return [f"{program}: hangs"]
        if re.search(r"^\[=+\] 0 tests ", done.stdout, re.M):
            return [f"{program}: no test matches {look}"]
        failed = re.findall(r"^\[  FAILED  \] ([\w/.]+)", done.stdout, re.M)
        if not failed and done.returncode:
            return [f"{program}: status {done.returncode}"]
        return sorted(set(failed), key=failed.index)

    def caught_by(self, program, look):
        """Tests that fail; None when the sources don't build."""
        if failed := self.failures(program, look):
            return failed
        for other in self.programs:
            done = self.compile(other)
            if done.returncode:
                return None
            if failed := self.failures(other):
                return failed
        return []


def tests_text(failed):
    shown = ", ".join(f"`{name}`" for name in failed[:4])
    return shown + (f" and {len(failed) - 4} more" if len(failed) > 4 else "")


def table(rows, which):
    command = "scripts/mutations.py" if which == "engine" else f"scripts/mutations.py --set {which}"
    lines = ["# Mutations", "",
             f"Each row is one thing broken in a scratch copy of the sources by `{command}`, and the tests that saw it.",
             "None survives.", "", "| broken | file | caught by |", "|---|---|---|"]
    for name, path, failed in rows:
        lines.append(f"| {name} | `{path}` | {tests_text(failed) if failed else '**nothing: it survives**'} |")
    if not all(failed for _, _, failed in rows):
        lines[3] = "**Some survive.**"
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, default="engine", dest="which")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="mutations whose name contains one of these")
    parser.add_argument("--fit", action="store_true", help="only check that all sets fit the source")
    parser.add_argument("--scratch", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    arguments = parser.parse_args()
    mutations, programs, report = SETS[arguments.which]
    judged = [m for table, *_ in SETS.values() for m in table] if arguments.fit else mutations
    if unfit := misfits(judged):
        print("\n".join(f"mutations: {line}" for line in unfit), file=sys.stderr)
        return 2
    if arguments.fit:
        print(f"{len(judged)} mutations fit the source")
        return 0
    chosen = [m for m in mutations if not arguments.only or any(word in m[0] for word in arguments.only)]

    temporary = None
    if not arguments.scratch:
        temporary = tempfile.TemporaryDirectory(prefix="mutations-")
    scratch = (arguments.scratch or pathlib.Path(temporary.name) / "source").resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    copy_sources(scratch)
    bench = Bench(scratch, (arguments.build or scratch.parent / "build").resolve(), programs)
    bench.configure()
    done = bench.compile(*sorted({program for *_, program, _ in chosen}))
    if done.returncode:
        sys.exit(f"mutations: the sources don't build:\n{done.stdout[-3000:]}")
    for program, look in sorted({(program, look) for *_, program, look in chosen}):
        if failed := bench.failures(program, look):
            sys.exit(f"mutations: tests fail before anything is broken: {', '.join(failed)}")

    rows, broken = [], 0
    for name, path, old, new, program, look in chosen:
        source = scratch / path
        text = source.read_text()
        source.write_text(text.replace(old, new))
        done = bench.compile(program)
        failed = None if done.returncode else bench.caught_by(program, look)
        source.write_text(text)
        if failed is None:
            print(f"mutations: {name} doesn't build:\n{done.stdout[-1500:]}", file=sys.stderr)
            broken += 1
            continue
        rows.append((name, path, failed))
        print(f"{name}: {', '.join(failed[:3]) or 'SURVIVES'}", flush=True)

    text = table(rows, arguments.which)
    if arguments.only:
        print(text)
    elif not broken:
        (ROOT / "reports" / report).write_text(text)
    if broken:
        return 2
    return 0 if all(failed for _, _, failed in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

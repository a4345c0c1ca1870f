#!/usr/bin/env python3
"""Line coverage of device cuda by the emulated tests (gcov): engine/device/cuda and engine/comm/nccl.

    scripts/cuda_coverage.py                  builds, runs CTest's label `emulated`, writes reports/cuda_coverage.md
    scripts/cuda_coverage.py --build DIR      where to build (default build/coverage)
    scripts/cuda_coverage.py --report         only writes the report, from what the last run counted

Exit 0: at least 95 %. 1: less, or a source was not compiled. 2: the build or a test fails. A line counts as covered when any
instantiation of it has run. A quarter of an hour on two cores.
"""
import argparse
import collections
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("engine/device/cuda/", "engine/comm/nccl/")
APART = {"engine/device/cuda/check/": "the program of `scripts/gpu_check`, which needs nvcc and a GPU",
         "engine/device/cuda/unavailable/": "what stands in for device cuda where it is not built",
         "engine/device/cuda/without_cudnn/": "what stands in for attention through cuDNN where it is not there"}
LEAST = 95.0


def run(command, **how):
    done = subprocess.run(command, **how)
    if done.returncode:
        sys.exit(2)


def lines_of(build):
    """{source: {line: times run}} of the sources in FOLDERS."""
    counts = collections.defaultdict(lambda: collections.defaultdict(int))
    data = sorted((build / "tests" / "cuda_emulator").glob("CMakeFiles/cuda_emulated.dir/**/*.gcda"))
    with tempfile.TemporaryDirectory() as scratch:
        for file in data:
            subprocess.run(["gcov", "--json-format", file], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        for report in pathlib.Path(scratch).glob("*.gcov.json.gz"):
            for source in json.loads(gzip.open(report).read())["files"]:
                path = os.path.relpath(os.path.normpath(os.path.join(build, source["file"])), ROOT)
                if path.startswith(FOLDERS):
                    for line in source["lines"]:
                        counts[path][line["line_number"]] += line["count"]
    return counts


def ranges(numbers):
    out = []
    for number in numbers:
        if out and number == out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def count(build):
    run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DBENCHSUITE_CUDA_COVERAGE=ON",
         "-DBENCHSUITE_BENCHMARKS=OFF"])
    run(["cmake", "--build", build, "--target", "cuda_emulated_tests"])
    for old in build.rglob("*.gcda"):
        old.unlink()
    # What AddressSanitizer watches is another library.
    run(["ctest", "-L", "emulated", "-LE", "guarded", "--output-on-failure", "-j", "2"], cwd=build)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "coverage")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    if not arguments.report:
        count(build)

    counts = lines_of(build)
    rows, total, covered = [], 0, 0
    for path in sorted(counts):
        lines = counts[path]
        missed = sorted(number for number, times in lines.items() if times == 0)
        total += len(lines)
        covered += len(lines) - len(missed)
        rows.append(f"| `{path}` | {len(lines)} | {100 * (1 - len(missed) / len(lines)):.1f} % | {ranges(missed) or '-'} |")
    share = 100 * covered / total if total else 0.0
    sources = {path.relative_to(ROOT).as_posix()
               for folder in FOLDERS for kind in ("cpp", "cu") for path in (ROOT / folder).rglob(f"*.{kind}")}
    missing = sorted(path for path in sources - set(counts) if not path.startswith(tuple(APART)))
    text = ["# Coverage of device cuda", "",
            f"Lines of `engine/device/cuda` and `engine/comm/nccl` that CTest's label `emulated` runs, by gcov: **{share:.1f} %** "
            f"({covered} of {total}).", "", "Written by `scripts/cuda_coverage.py`. Apart: "
            + "; ".join(f"`{folder}`, {why}" for folder, why in APART.items()) + ".", ""]
    text += [f"**Not compiled: `{path}`.**" for path in missing]
    text += ["| file | lines | run | never run |", "|---|---:|---:|---|", *rows]
    (ROOT / "reports" / "cuda_coverage.md").write_text("\n".join(text) + "\n")
    print(f"{share:.1f} % of {total} lines")
    return 0 if share >= LEAST and not missing else 1


if __name__ == "__main__":
    sys.exit(main())

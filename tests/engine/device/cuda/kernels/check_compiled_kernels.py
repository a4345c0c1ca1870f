#!/usr/bin/env python3
"""What nvcc makes of the CUDA kernels: no spills, no local memory, wide accesses, no float atomics, registers for a whole block.

    check_compiled_kernels.py CHECKOUT [--arch 80 90 100]

The kernels become PTX once and machine code for every architecture. Where the disassembler is installed, its code must have the
wide loads, too. Exit 0: all kernels pass; 1: one does not; 77: there is no nvcc.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Kernels that read, or write, too little for wide accesses to matter. Every other kernel must have them.
NARROW_LOADS = {"clip", "add_to_digits", "add_rows", "fill_with"}
NARROW_STORES = {"clip", "add_to_digits", "add_rows", "row_maximum", "sum_chunks", "sum_some_rows"}
MAX_REGISTERS = 128  # of a thread: a block of 512 has 65536 in all


def find(tool):
    places = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    return shutil.which(tool) or next((found for place in places if (found := shutil.which(f"{place}/bin/{tool}"))), None)


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"check_compiled_kernels: {' '.join(map(str, command))} fails:\n{done.stdout[-3000:]}")
    return done.stdout


def kernel_name(mangled):
    """The last part of a name in namespaces: _ZN 10benchsuite 4cuda 57_GLOBAL__... 9pointwise I..."""
    rest, name = mangled.removeprefix("_ZN"), mangled
    while match := re.match(r"\d+", rest):
        length = int(match.group())
        name, rest = rest[match.end():match.end() + length], rest[match.end() + length:]
    return name


def entries_of(ptx):
    """(mangled name, body) of every kernel."""
    parts = re.split(r"^(?:\.visible |\.weak )?\.entry ([\w$]+)\(", ptx, flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def what_is_wrong_in_ptx(name, body):
    wrong = []
    if re.search(r"\.local\b|\b(ld|st)\.local\b", body):
        wrong.append("uses local memory")
    if re.search(r"\b(atom|red)\.[\w.]*\.(f16|bf16|f32|f64|f16x2|bf16x2)\b", body):
        wrong.append("has a float atomic")
    if name not in NARROW_LOADS and not re.search(r"\bld\.(global\.)?(nc\.)?v4\.[bfu]32\b", body):
        wrong.append("has no 16-byte load")
    if name not in NARROW_STORES and not re.search(r"\bst\.(global\.)?v4\.[bfu]32\b", body):
        wrong.append("has no 16-byte store")
    return wrong


def what_is_wrong_in_report(report):
    """ptxas -v, kernel by kernel: [(mangled name, complaint)]; and how many kernels it tells of."""
    wrong, count = [], 0
    for part in re.split(r"Compiling entry function '", report)[1:]:
        name = part.split("'")[0]
        count += 1
        frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        registers = re.search(r"Used (\d+) registers", part)
        if not frame or not registers:
            wrong.append((name, "has no line of its stack and registers"))
            continue
        if any(int(size) for size in frame.groups()):
            wrong.append((name, f"spills: {frame.group()}"))
        if int(registers.group(1)) > MAX_REGISTERS:
            wrong.append((name, f"takes {registers.group(1)} registers, more than {MAX_REGISTERS}"))
    return wrong, count


def check(source, tools, root, scratch, architectures):
    """Complaints about one source, and its number of kernels."""
    ptx = scratch / f"{source.stem}.ptx"
    run([tools["nvcc"], "-std=c++20", "--expt-relaxed-constexpr", "-fmad=false", "-O3", f"-I{root}",
         f"-arch=compute_{min(architectures)}", "-ptx", source, "-o", ptx])
    entries = entries_of(ptx.read_text())
    complaints = [f"{source.name}: {kernel_name(name)} {complaint}" for name, body in entries
                  for complaint in what_is_wrong_in_ptx(kernel_name(name), body)]
    for architecture in architectures:
        cubin = scratch / f"{source.stem}.{architecture}.cubin"
        wrong, count = what_is_wrong_in_report(run([tools["ptxas"], "-v", "-O3", f"-arch=sm_{architecture}", ptx, "-o", cubin]))
        complaints += [f"{source.name}: sm_{architecture}: {kernel_name(name)} {complaint}" for name, complaint in wrong]
        if count != len(entries):
            complaints.append(f"{source.name}: sm_{architecture}: {count} kernels, not {len(entries)}")
        if tools["cuobjdump"]:
            functions = re.split(r"Function : ", run([tools["cuobjdump"], "-sass", cubin]))[1:]
            for function in functions:
                name = kernel_name(function.split()[0])
                if name not in NARROW_LOADS and "LDG.E.128" not in function:
                    complaints.append(f"{source.name}: sm_{architecture}: {name} has no LDG.E.128")
    return complaints, [kernel_name(name) for name, _ in entries]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--arch", nargs="+", type=int, default=[80, 90, 100])
    arguments = parser.parse_args()
    tools = {name: find(name) for name in ("nvcc", "ptxas", "cuobjdump")}
    if not tools["nvcc"] or not tools["ptxas"]:
        print("skipped: there is no CUDA toolkit (nvcc and ptxas in PATH, CUDA_HOME or /usr/local/cuda)")
        return 77
    sources = sorted((arguments.checkout / "engine/device/cuda/kernels").glob("*.cu"))
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(
            lambda source: check(source, tools, arguments.checkout, pathlib.Path(scratch), arguments.arch), sources))
    complaints = [complaint for wrong, _ in results for complaint in wrong]
    kernels = {name for _, names in results for name in names}
    complaints += [f"{name} is excused from wide accesses, but there is no such kernel"
                   for name in sorted((NARROW_LOADS | NARROW_STORES) - kernels)]
    if complaints:
        print("\n".join(complaints))
        return 1
    where = "" if tools["cuobjdump"] else " (in PTX: no disassembler here)"
    print(f"{sum(len(names) for _, names in results)} kernels of {len(sources)} files for sm_{', sm_'.join(map(str, arguments.arch))}: "
          f"no spills, no local memory, no float atomics, wide accesses{where}")
    return 0 if kernels else 1


if __name__ == "__main__":
    sys.exit(main())

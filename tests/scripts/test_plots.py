"""Every scripts/plot_*.py that reads result.json draws a picture of a run, and says so when there is nothing to draw.
Arguments: checkout, program. Skipped (status 77) where matplotlib is not installed."""
import importlib.util
import json
import subprocess
import sys

from harness import Harness, skip

NAMES = ("timeline", "breakdown", "mfu", "memory", "scaling", "comparison", "loss")


def main():
    if importlib.util.find_spec("matplotlib") is None:
        skip("python3-matplotlib is not installed")
    t = Harness()
    t.run("run", "--case", "sp_recompute_13b", "--out", t.folder / "r", "--no-history", "-q", "--format", "md", codes=(0, 1))
    result = json.loads((t.folder / "r/result.json").read_text())
    case = result["cases"][0]
    case["id"] = "odd/../name"
    # Two sizes of one configuration make a scaling curve; one variant without a peak has no MFU.
    twin = json.loads(json.dumps(case["variants"][0]))
    twin.update(id="twice", tokens_per_s_per_gpu=0.9 * twin["tokens_per_s_per_gpu"], mfu=None, hfu=None)
    twin["layout"].update(dp=2, global_batch=2 * twin["layout"]["global_batch"])
    case["variants"] = case["variants"][:3] + [twin]
    twin.update(loss=1.5, loss_curve=[5.0, None, 1.5])  # as if trained, with a step that was not finite
    (t.folder / "result.json").write_text(json.dumps(result))
    empty = dict(result, cases=[])
    (t.folder / "empty.json").write_text(json.dumps(empty))
    for name in NAMES:
        script = [sys.executable, str(t.root / f"scripts/plot_{name}.py")]
        done = subprocess.run([*script, t.folder / "result.json", "--out", t.folder / "p"], capture_output=True, text=True)
        picture = t.folder / f"p/odd_.._name_{name}.png"
        t.expect(f"plot_{name} draws", done.returncode == 0 and picture.is_file() and picture.stat().st_size > 5000,
                 done.stderr[-400:])
        done = subprocess.run([*script, t.folder / "empty.json", "--out", t.folder / "p"], capture_output=True, text=True)
        t.expect(f"plot_{name} of nothing says so", done.returncode == 1 and "nothing to draw" in done.stderr, done.stderr)
    t.finish()


main()

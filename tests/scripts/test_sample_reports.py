"""The sample reports under reports/ are those that scripts/make_reports makes from today's cases, and a changed one is noticed.
Arguments: checkout, program."""
import shutil
import subprocess
import sys

from harness import Harness


def main():
    t = Harness()
    make = [sys.executable, str(t.root / "scripts/make_reports"), "--program", t.program]
    done = subprocess.run([*make, "--check"], capture_output=True, text=True)
    t.expect("reports/ is fresh", done.returncode == 0, done.stdout + done.stderr)

    # A report with one other digit, and one of a case that is gone.
    copy = t.folder / "reports"
    case = "sp_recompute_13b"
    shutil.copytree(t.root / "reports" / case, copy / case)
    page = copy / case / "report.html"
    page.write_text(page.read_text().replace("TP4", "TP5", 1))
    done = subprocess.run([*make, "--check", "--case", case, "--reports", str(copy)], capture_output=True, text=True)
    t.expect("a changed report is stale", done.returncode == 1 and f"{case}/report.html" in done.stderr
             and "report.md" not in done.stderr, done.stderr)

    # And a README whose excerpt says another time.
    readme = (t.root / "README.md").read_text()
    before, row = readme.split("  full_m8 ", 1)
    (t.folder / "README.md").write_text(before + "  full_m8 " + row.replace(" s ", " h ", 1))
    done = subprocess.run([*make, "--check", "--case", case, "--reports", str(copy)], capture_output=True, text=True)
    t.expect("a changed excerpt is stale", done.returncode == 1 and "README.md" in done.stderr, done.stderr)
    t.finish()


main()

"""The "What is left" texts of reports/accuracy.md are those of expected/published/sources.json, word for word.

The page is made by a command (`benchsuite accuracy --ensemble 100 --ablate --markdown reports/accuracy.md`), so a
text that changes leaves it behind. Sets without a row in the page's table have no text there.
"""

import json
import pathlib
import sys


def stale_texts(rules, page):
    """What differs: one line for each set of the page's table whose text is another, missing or left over."""
    table, left = page.split("\n## What is left\n")[:2]
    sets = {line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")}
    shown = {line for line in left.split("\n## ")[0].splitlines() if line.startswith("- **")}
    residuals = {target["set"]: target.get("residual", "") for target in rules["targets"] + rules["relative"]}
    problems = []
    for name in residuals | rules["intervals"]:
        note = rules["intervals"].get(name, "")
        text = " ".join(filter(None, [residuals.get(name, ""), "Intervals: " + note if note else ""]))
        line = f"- **{name}**: {text}"
        if name in sets and text and line not in shown:
            problems.append(f"reports/accuracy.md lacks the text of sources.json about {name}")
        shown.discard(line)
    return problems + [f"sources.json has no such text: {line}" for line in sorted(shown)]


def main():
    root = pathlib.Path(sys.argv[1])
    rules = json.loads((root / "expected/published/sources.json").read_text())
    page = (root / "reports/accuracy.md").read_text()
    problems = stale_texts(rules, page)
    a_set = next(target["set"] for target in rules["targets"] if target.get("residual") and f"- **{target['set']}**" in page)
    assert stale_texts(rules, page.replace(f"- **{a_set}**: ", f"- **{a_set}**: Once, ")), "a changed text is not seen"
    for problem in problems:
        print(problem)
    if problems:
        print("make it again: benchsuite accuracy -q --ensemble 100 --ablate --markdown reports/accuracy.md")
    return 1 if problems else 0


sys.exit(main())

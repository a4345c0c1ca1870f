"""The files of a run: result.json against the published schema (python3-jsonschema), junit.xml against junit.xsd (python3-lxml
or xmllint), the trace against what viewers need. Arguments: checkout, program."""
import copy
import importlib.util
import json
import shutil
import subprocess
import xml.etree.ElementTree

from harness import Harness

TINY = {
    "schema_version": 1, "id": "tiny", "title": "A tiny <pipeline> & its \"step\"", "tags": ["test"],
    "model": "gpt-tiny", "stack": "plain", "hardware": "dgx-h100",
    "layout": {"tp": 2, "pp": 2, "dp": 1, "micro_batch": 1, "global_batch": 4, "sequence_parallel": True,
               "recompute": {"granularity": "none"}},
    "variants": [{"id": "none"},
                 {"id": "full", "set": {"layout.recompute": {"granularity": "full", "method": "uniform", "num_layers": 1}}}],
    "comparisons": [{"id": "full_to_none", "from": "full", "to": "none"}],
}


def check_schema(t, result):
    if importlib.util.find_spec("jsonschema") is None:
        print("SKIPPED: result.json against the schema: python3-jsonschema is not installed")
        return
    import jsonschema
    schema = json.loads((t.root / "suite/report/schema/result.schema.json").read_text())
    newest = getattr(jsonschema, "Draft202012Validator", None)
    if newest is None:
        print("SKIPPED: result.json against the schema: this jsonschema is too old for draft 2020-12")
        return
    newest.check_schema(schema)
    validator = newest(schema)
    errors = [f"{list(e.absolute_path)}: {e.message[:200]}" for e in validator.iter_errors(result)]
    t.expect("result.json obeys the schema", not errors, errors[:5])

    # The schema is as strict as the reader: what it doesn't know, and what is missing, it refuses.
    def refuses(what, change):
        broken = copy.deepcopy(result)
        change(broken)
        t.expect("the schema refuses " + what, not validator.is_valid(broken), "valid")

    variant = lambda r: r["cases"][0]["variants"][0]
    refuses("an unknown key", lambda r: r.update(surprise=1))
    refuses("an unknown key of a variant", lambda r: variant(r).update(surprise=1))
    refuses("another version", lambda r: r.update(schema_version=2))
    refuses("a missing status", lambda r: r["cases"][0].pop("status"))
    refuses("an unknown status", lambda r: r["cases"][0].update(status="GREAT"))
    refuses("a text for a number", lambda r: variant(r).update(mfu="high"))
    refuses("a span of four", lambda r: variant(r)["stages"][0]["gantt"].append([0, 1, 2, 3]))
    refuses("an unknown category", lambda r: variant(r)["stages"][0]["gantt"].append([0, 1, 11, 0, 0]))

    # Nothing in the schema that the program never writes.
    def properties(node):
        if isinstance(node, dict):
            for key, value in node.items():
                if key == "properties":
                    yield from value
                yield from properties(value)
        elif isinstance(node, list):
            for value in node:
                yield from properties(value)

    written = json.dumps(result)
    unwritten = [key for key in set(properties(schema)) if f'"{key}":' not in written]
    # A tiny case without expectations has no check.
    checks = set(schema["$defs"]["check"]["properties"])
    t.expect("the program writes every key of the schema", set(unwritten) <= checks, unwritten)


def check_junit(t, path):
    schema = t.root / "tests/scripts/junit.xsd"
    if importlib.util.find_spec("lxml") is not None:
        from lxml import etree
        validator = etree.XMLSchema(etree.parse(str(schema)))
        valid = lambda file: validator.validate(etree.parse(str(file)))
        why = lambda: validator.error_log
    elif shutil.which("xmllint"):
        valid = lambda file: subprocess.run(["xmllint", "--noout", "--schema", schema, file],
                                            capture_output=True).returncode == 0
        why = lambda: "see xmllint"
    else:
        print("SKIPPED: junit.xml against its schema: neither python3-lxml nor xmllint is installed")
        valid, why = None, None
    if valid:
        t.expect(f"{path.name} obeys junit.xsd", valid(path), why() if not valid(path) else "")
        broken = t.folder / "broken.xml"
        broken.write_text(path.read_text().replace("<testcase name=", "<testcase title=", 1))
        t.expect("junit.xsd refuses a test without a name", not valid(broken))
        broken.write_text(path.read_text().replace("<system-err/>", "", 1))
        t.expect("junit.xsd refuses a suite without system-err", not valid(broken))
    root = xml.etree.ElementTree.parse(path).getroot()
    for suite in root:
        cases = suite.findall("testcase")
        for attribute, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            t.expect(f"{path.name}: {attribute} of {suite.get('name')} are counted",
                     int(suite.get(attribute)) == sum(case.find(element) is not None for case in cases))
        t.expect(f"{path.name}: tests are counted", int(suite.get("tests")) == len(cases))
        names = {p.get("name") for p in suite.find("properties")}
        t.expect(f"{path.name}: properties carry system and commit", {"system", "commit"} <= names, names)


def check_trace(t, path, result):
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    streams = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = [e for e in events if e["ph"] == "X"]
    t.expect("tracks are named by rank", all(names[pid] == f"rank {pid}" for pid in names) and names, names)
    t.expect("every span lies on a named stream", all((e["pid"], e["tid"]) in streams for e in spans))
    flows = {}
    for event in events:
        if event["ph"] in "stf":
            flows.setdefault(event["id"], []).append(event)
    t.expect("collectives and transfers have flows", len(flows) > 4, len(flows))
    lanes = {}
    for span in spans:
        lanes.setdefault((span["pid"], span["tid"]), []).append((span["ts"], span["ts"] + span["dur"]))
    inside = lambda e: any(a - 1e-6 <= e["ts"] <= b + 1e-6 for a, b in lanes[e["pid"], e["tid"]])
    for flow in flows.values():
        kinds = sorted(e["ph"] for e in flow)
        if kinds.count("s") != 1 or kinds.count("f") != 1 or len({e["pid"] for e in flow}) != len(flow):
            t.expect("a flow has one start, one end and one event a rank", False, flow)
            break
        if not all(inside(e) for e in flow):
            t.expect("flow events lie inside spans of their lane", False, flow)
            break
    else:
        t.expect("flows are sound", True)
    t.expect("sends and receives are joined", any({e["name"] for e in f} == {"send", "receive"} for f in flows.values()))
    step_us = result["cases"][0]["variants"][0]["step_ps"] / 1e6
    t.expect("the trace ends with the step", abs(max(e["ts"] + e["dur"] for e in spans) - step_us) < 1e-3)


def main():
    t = Harness()
    case = t.folder / "tiny.json"
    case.write_text(json.dumps(TINY))
    t.run("run", "--case-file", case, "--out", t.folder / "r", "--trace", "--format", "junit,csv", "--junit",
          t.folder / "also.xml", "--no-history", "-q")
    names = {p.name for p in (t.folder / "r").iterdir()}
    t.expect("--format writes what it says, and result.json",
             {"junit.xml", "report.csv", "result.json"} <= names and "report.html" not in names, names)
    t.expect("--junit writes the same", (t.folder / "also.xml").read_bytes() == (t.folder / "r/junit.xml").read_bytes())
    result = json.loads((t.folder / "r/result.json").read_text())
    check_schema(t, result)
    check_junit(t, t.folder / "r/junit.xml")
    check_trace(t, t.folder / "r/tiny.none.trace.json", result)

    # A failed, a skipped and a broken case, with text that needs escaping.
    result["exit_code"] = 3
    result["cases"][0]["status"] = "ERROR"
    result["cases"][0]["variants"][0].update(status="SKIP", reason_code="NO_GPU", reason="needs <16> & found \"1\"")
    result["cases"][0]["variants"][1].update(status="ERROR", reason_code="RUN_ERROR", reason="rank 3\u0001\u0085 lost")
    (t.folder / "bad.json").write_text(json.dumps(result))
    t.run("report", t.folder / "bad.json", "--format", "junit,csv,md,html", "--out", t.folder / "bad")
    check_junit(t, t.folder / "bad/junit.xml")
    t.finish()


main()

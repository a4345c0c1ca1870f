#include "suite/report/junit.h"

#include <fmt/format.h>

#include <algorithm>

#include "suite/report/format.h"

namespace benchsuite {
namespace {

enum class Outcome : std::uint8_t { passed, skipped, failure, error };

Outcome outcome_of(Status status) {
  switch (status) {
    case Status::pass:
    case Status::xfail:
    case Status::warn: return Outcome::passed;
    case Status::skip:
    case Status::noref: return Outcome::skipped;
    case Status::fail:
    case Status::xpass: return Outcome::failure;
    case Status::aborted:
    case Status::timeout:
    case Status::error: return Outcome::error;
  }
  return Outcome::error;
}

Outcome outcome_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
    case Verdict::warn:
    case Verdict::improved:
    case Verdict::shown: return Outcome::passed;
    case Verdict::noref: return Outcome::skipped;
    case Verdict::fail: return Outcome::failure;
    case Verdict::missing: return Outcome::error;
  }
  return Outcome::error;
}

struct Test {
  std::string name;
  double seconds = 0;
  Outcome outcome = Outcome::passed;
  std::string type, message;  ///< of what is not passed
  std::string out;
};

/// Well-formed UTF-8 without the characters that XML 1.0 has no way to write.
std::string xml_text(std::string_view text) {
  std::string escaped;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xC2 ? 0
                               : lead < 0xE0 ? 2
                               : lead < 0xF0 ? 3
                               : lead < 0xF5 ? 4
                                             : 0;
    char32_t code = length == 1 ? lead : length ? lead & (0x7Fu >> length) : 0xFFFD;
    bool whole = length > 0 && i + length <= text.size();
    for (std::size_t j = 1; whole && j < length; ++j) {
      const auto next = static_cast<unsigned char>(text[i + j]);
      whole = (next & 0xC0) == 0x80;
      code = code << 6 | (next & 0x3Fu);
    }
    const bool allowed = whole && (code >= 0x20 || code == '\t' || code == '\n') &&
                         !(code >= 0xD800 && code < 0xE000) && code != 0xFFFE && code != 0xFFFF && code <= 0x10FFFF &&
                         !(code >= 0x7F && code < 0xA0) && !(length == 3 && code < 0x800) &&
                         !(length == 4 && code < 0x10000);
    if (!allowed) {
      escaped += ' ';
      i += whole ? length : 1;
      continue;
    }
    switch (code) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\n': escaped += "&#10;"; break;
      case '\t': escaped += "&#9;"; break;
      default: escaped.append(text.substr(i, length));
    }
    i += length;
  }
  return escaped;
}

std::string reason_of(const std::string& code, const std::string& reason) {
  return code + (code.empty() || reason.empty() ? "" : ": ") + reason;
}

std::string step_text(const VariantResult& variant) {
  const Sampling sampling = sampling_of(variant);
  std::string text = fmt::format("step {}, n = {}", format_seconds(variant.iteration_s, 6), sampling.n);
  if (sampling.spread) text += ", spread " + format_percent(*sampling.spread);
  return text;
}

std::vector<Test> tests_of(const CaseResult& result) {
  std::vector<Test> tests;
  const double each = result.variants.empty() ? 0 : result.elapsed_s / static_cast<double>(result.variants.size());
  for (const VariantResult& variant : result.variants) {
    Test test{variant.id + "/step", each, outcome_of(variant.status), variant.reason_code,
              reason_of(variant.reason_code, variant.reason), ""};
    if (variant.iteration_s > 0) test.out = step_text(variant);
    if (variant.status == Status::warn) test.out = "WARN " + test.message + "\n" + test.out;
    tests.push_back(std::move(test));
  }
  for (const CheckResult& check : result.checks) {
    if (check.verdict == Verdict::shown || !check.gates) continue;
    Test test{check.id, 0, outcome_of(check.verdict), std::string(name_of(check.verdict)), "", ""};  // a stable name
    if (test.outcome == Outcome::skipped) {
      test.message = check.explanation.empty() ? "no reference applies" : check.explanation;
    } else if (test.outcome != Outcome::passed) {
      test.type = test.outcome == Outcome::error ? "MISSING_METRIC"
                  : check.kind == "bound"        ? "BOUND_BROKEN"
                                                 : "OUT_OF_RANGE";
      test.message = (check.title.empty() ? "" : check.title + ": ") + failure_text(check) + " (" + check.kind + ": " +
                     check.source + ")";
    }
    test.out = fmt::format("{} {}: {}", name_of(check.verdict), title_of(check), failure_text(check));
    if (!check.source.empty()) test.out += "\n" + check.kind + ": " + check.source;
    tests.push_back(std::move(test));
  }
  const Outcome whole = outcome_of(result.status);
  const bool carried = whole == Outcome::passed
                           ? !tests.empty()
                           : std::any_of(tests.begin(), tests.end(), [&](const Test& t) { return t.outcome == whole; });
  if (!carried) {
    tests.push_back({"verdict", result.elapsed_s, whole,
                     result.reason_code.empty() ? std::string(name_of(result.status)) : result.reason_code,
                     reason_of(result.reason_code, result.reason), ""});
  }
  return tests;
}

struct Counts {
  std::size_t tests = 0, failures = 0, errors = 0, skipped = 0;

  void add(const Test& test) {
    ++tests;
    failures += test.outcome == Outcome::failure;
    errors += test.outcome == Outcome::error;
    skipped += test.outcome == Outcome::skipped;
  }
  std::string attributes() const {
    return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"", tests, failures, errors, skipped);
  }
};

void write_test(std::string& out, const CaseResult& result, const Test& test) {
  out += fmt::format("    <testcase name=\"{}\" classname=\"{}\" time=\"{:.3f}\"", xml_text(test.name),
                     xml_text(result.id), test.seconds);
  std::string inside;
  const auto say = [&](const char* element, bool typed) {
    const std::string message = test.message.empty() ? test.type : test.message;
    inside += fmt::format("      <{}", element);
    if (typed) inside += fmt::format(" type=\"{}\"", xml_text(test.type.empty() ? "unknown" : test.type));
    inside += fmt::format(" message=\"{}\"/>\n", xml_text(message.empty() ? "no reason given" : message));
  };
  if (test.outcome == Outcome::skipped) say("skipped", false);
  if (test.outcome == Outcome::failure) say("failure", true);
  if (test.outcome == Outcome::error) say("error", true);
  if (!test.out.empty()) inside += fmt::format("      <system-out>{}</system-out>\n", xml_text(test.out));
  out += inside.empty() ? "/>\n" : ">\n" + inside + "    </testcase>\n";
}

std::string properties(const Run& run, const CaseResult& result) {
  std::vector<std::pair<std::string, std::string>> list = {
      {"system", run.host},          {"device", run.device},         {"commit", run.engine_commit},
      {"version", run.suite_version}, {"run_id", run.run_id},         {"reproduce", reproduce_line(run)},
      {"case_hash", result.case_hash}};
  std::string hardware;
  for (const VariantResult& variant : result.variants) {
    if (!variant.hardware.empty() && (", " + hardware + ",").find(", " + variant.hardware + ",") == std::string::npos)
      hardware += (hardware.empty() ? "" : ", ") + variant.hardware;
  }
  list.emplace_back("hardware", hardware);
  for (auto& [name, value] : environment_lines(run.environment)) list.emplace_back("environment." + name, value);
  std::string text = "    <properties>\n";
  for (const auto& [name, value] : list) {
    if (value.empty()) continue;
    text += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", xml_text(name), xml_text(value));
  }
  return text + "    </properties>\n";
}

std::string claims(const CaseResult& result) {
  std::string text;
  for (const CheckResult& check : result.checks) {
    if (check.verdict != Verdict::shown) continue;
    text += "claim, never judged: " + title_of(check);
    if (check.target) text += ": claimed " + format_in_unit(*check.target, check.unit);
    if (check.value) text += ", here " + format_in_unit(*check.value, check.unit);
    text += ". " + check.explanation + "\n";
  }
  return text;
}

}  // namespace

std::string junit_report(const Run& run) {
  Counts all;
  double seconds = 0;
  std::string suites;
  // Ant's schema has no zone in a timestamp; ours are UTC.
  const std::string timestamp = run.started.substr(0, run.started.find('Z'));
  for (std::size_t i = 0; i < run.cases.size(); ++i) {
    const CaseResult& result = run.cases[i];
    const std::vector<Test> tests = tests_of(result);
    Counts counts;
    for (const Test& test : tests) {
      counts.add(test);
      all.add(test);
    }
    seconds += result.elapsed_s;
    suites += fmt::format("  <testsuite name=\"{}\" id=\"{}\" package=\"benchsuite\" hostname=\"{}\"",
                          xml_text(result.id), i, xml_text(run.host.empty() ? "unknown" : run.host));
    if (!timestamp.empty()) suites += fmt::format(" timestamp=\"{}\"", xml_text(timestamp));
    suites += fmt::format(" time=\"{:.3f}\" {}>\n", result.elapsed_s, counts.attributes());
    suites += properties(run, result);
    for (const Test& test : tests) write_test(suites, result, test);
    suites +=
        fmt::format("    <system-out>{}</system-out>\n    <system-err/>\n  </testsuite>\n", xml_text(claims(result)));
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"benchsuite\" time=\"{:.3f}\" "
      "{}>\n{}</testsuites>\n",
      seconds, all.attributes(), suites);
}

}  // namespace benchsuite

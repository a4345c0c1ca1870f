// The text half of format.h: escapes, columns, command lines, and the one-line descriptions of variants and checks.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "suite/report/format.h"
#include "suite/results/statistics.h"

namespace benchsuite {
namespace {

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

/// A JSON scalar without quotes; "" when absent.
std::string word(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return "";
  const Json& value = object.at(key);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::int64_t integer(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object.at(key).is_number_integer()
             ? object.at(key).get<std::int64_t>()
             : 0;
}

std::string recompute_words(const Json& layout) {
  if (!layout.is_object() || !layout.contains("recompute")) return "";
  const Json& recompute = layout.at("recompute");
  if (!recompute.is_object()) return word(layout, "recompute");
  std::string words = word(recompute, "granularity");
  if (words == "full")
    words.append(" ").append(word(recompute, "method")).append(" ").append(word(recompute, "num_layers"));
  if (words == "selective" && recompute.contains("modules") && recompute.at("modules").is_array()) {
    std::string modules;
    for (const Json& module : recompute.at("modules")) {
      if (module.is_string()) modules += (modules.empty() ? "" : ", ") + module.get<std::string>();
    }
    words += " (" + modules + ")";
  }
  return words;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return line;
}

std::string html_escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 8);
  for (char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
          escaped += ' ';
        } else {
          escaped += c;
        }
    }
  }
  return escaped;
}

std::string markdown_escape(std::string_view text) {
  std::string escaped;
  const std::string line = one_line(text);
  const auto in_word = [&](std::size_t i) {
    return i < line.size() && std::isalnum(static_cast<unsigned char>(line[i]));
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '_' && i > 0 && in_word(i - 1) && in_word(i + 1)) {
      escaped += c;  // inside a word it has no meaning
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else {
      if (std::string_view("\\|*_`[]").find(c) != std::string_view::npos) escaped += '\\';
      escaped += c;
    }
  }
  return escaped;
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_code_point));
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t have = columns(text);
  return std::string(text) + std::string(have < width ? width - have : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t have = columns(text);
  return std::string(have < width ? width - have : 0, ' ') + std::string(text);
}

std::string clip(std::string_view text, std::size_t width) {
  if (columns(text) <= width) return std::string(text);
  if (width == 0) return "";
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    if (starts_code_point(text[end]) && seen++ == width - 1) break;
  }
  while (end > 0 && text[end - 1] == ' ') --end;
  return std::string(text.substr(0, end)) + "…";
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  const std::string line = one_line(text);
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    std::string piece = line.substr(at, end - at);
    at = end + 1;
    if (piece.empty()) continue;
    if (!lines.back().empty() && columns(lines.back()) + 1 + columns(piece) > width) lines.emplace_back();
    while (columns(piece) > width) {  // a word longer than a line
      std::size_t cut = 0;
      for (std::size_t seen = 0; cut < piece.size(); ++cut) {
        if (starts_code_point(piece[cut]) && seen++ == width) break;
      }
      lines.back() = piece.substr(0, cut);
      lines.emplace_back();
      piece.erase(0, cut);
    }
    lines.back() += (lines.back().empty() ? "" : " ") + piece;
  }
  return lines;
}

std::string shell_quote(std::string_view text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
  });
  if (plain) return std::string(text);
  std::string quoted = "'";
  for (char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string reproduce_line(const Run& run) {
  std::string line = "benchsuite";
  // Stored arguments start with the program or with the verb.
  const bool program_first =
      !run.argv.empty() && run.argv[0].substr(run.argv[0].find_last_of('/') + 1).rfind("benchsuite", 0) == 0;
  for (std::size_t i = program_first ? 1 : 0; i < run.argv.size(); ++i)
    line.append(" ").append(shell_quote(one_line(run.argv[i])));
  return line;
}

std::string layout_line(const Json& layout) {
  if (!layout.is_object()) return "";
  std::string line = fmt::format("TP{} PP{} DP{}", integer(layout, "tp"), integer(layout, "pp"), integer(layout, "dp"));
  if (integer(layout, "vpp") > 1) line += fmt::format(" v{}", integer(layout, "vpp"));
  if (integer(layout, "cp") > 1) line += fmt::format(" CP{}", integer(layout, "cp"));
  const std::int64_t micro_batch = integer(layout, "micro_batch");
  const std::int64_t samples = micro_batch * std::max<std::int64_t>(1, integer(layout, "dp"));
  line += fmt::format(", micro-batch {}", micro_batch);
  if (samples > 0) line += fmt::format(", m = {}", integer(layout, "global_batch") / samples);
  if (layout.value("sequence_parallel", Json(false)) == Json(true)) line += ", sequence parallel";
  if (const std::string words = recompute_words(layout); !words.empty()) line += ", recompute " + words;
  if (const std::string kernel = word(layout, "attention"); !kernel.empty()) line += ", " + kernel + " attention";
  if (const std::string placement = word(layout, "placement"); placement == "across_nodes") {
    line += ", tensor groups across nodes";
  }
  if (integer(layout, "zero_stage") > 0) line += fmt::format(", ZeRO-{}", integer(layout, "zero_stage"));
  return one_line(line);
}

std::string model_line(const Json& model) {
  if (!model.is_object()) return "";
  std::string line = word(model, "name").empty() ? word(model, "family") : word(model, "name");
  const std::pair<const char*, const char*> fields[] = {
      {"layers", "layers"}, {"hidden", "hidden"}, {"heads", "heads"}, {"seq", "sequence"}, {"vocab", "vocabulary"}};
  for (const auto& [key, title] : fields) {
    const std::string value = word(model, key);
    if (!value.empty()) line += fmt::format("{}{} {}", line.empty() ? "" : ", ", title, value);
  }
  return one_line(line);
}

std::vector<std::optional<double>> step_ratios(const CaseResult& result) {
  std::vector<std::string> keys;
  for (const VariantResult& variant : result.variants) {
    Json layout = variant.layout;
    if (layout.is_object()) layout.erase("recompute");
    keys.push_back(variant.hardware + "\n" + variant.stack + "\n" + variant.model.dump() + "\n" + layout.dump());
  }
  std::vector<std::optional<double>> ratios(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    double best = std::numeric_limits<double>::infinity(), best_fitting = best;
    for (std::size_t j = 0; j < keys.size(); ++j) {
      const double step = result.variants[j].iteration_s;
      if (keys[j] != keys[i] || !(step > 0)) continue;
      best = std::min(best, step);
      if (result.variants[j].fits) best_fitting = std::min(best_fitting, step);
    }
    const double reference = std::isfinite(best_fitting) ? best_fitting : best;
    if (result.variants[i].iteration_s > 0) ratios[i] = result.variants[i].iteration_s / reference;
  }
  return ratios;
}

std::vector<std::pair<std::string, std::string>> environment_lines(const Json& environment) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (environment.is_object() || environment.is_array()) {
    std::size_t place = 0;
    for (auto item = environment.begin(); item != environment.end(); ++item, ++place) {
      const std::string name = environment.is_object() ? item.key() : std::to_string(place);
      if (!item->is_structured()) {
        lines.emplace_back(name, item->is_string() ? item->get<std::string>() : item->dump());
        continue;
      }
      for (auto& [inner, value] : environment_lines(*item)) lines.emplace_back(name + "." + inner, std::move(value));
    }
  }
  return lines;
}

double mean_seconds(const VariantResult& variant, Category category) {
  return static_cast<double>(variant.mean_breakdown.time[static_cast<std::size_t>(category)]) * kSecondsPerPicosecond /
         static_cast<double>(std::max<std::int64_t>(1, variant.ranks_in_breakdown));
}

Status worst_status(const Run& run) {
  if (run.cases.empty()) return Status::noref;
  return std::max_element(run.cases.begin(), run.cases.end(),
                          [](const CaseResult& a, const CaseResult& b) { return a.status < b.status; })
      ->status;
}

std::string count_line(const Run& run) {
  const auto count = [&](Status status) {
    return std::count_if(run.cases.begin(), run.cases.end(), [&](const CaseResult& c) { return c.status == status; });
  };
  std::string line =
      fmt::format("{} case{}: {} PASS, {} WARN, {} FAIL, {} SKIP, {} ERROR", run.cases.size(),
                  run.cases.size() == 1 ? "" : "s", count(Status::pass), count(Status::warn), count(Status::fail),
                  count(Status::skip), count(Status::error));
  for (Status other : {Status::xfail, Status::xpass, Status::noref, Status::aborted, Status::timeout}) {
    if (count(other) > 0) line += fmt::format(", {} {}", count(other), name_of(other));
  }
  return line;
}

bool needs_attention(const CheckResult& check) {
  return check.gates && check.verdict != Verdict::pass && check.verdict != Verdict::shown;
}

namespace {

/// Whether `id` stands in the expression as the variant of a metric.
bool names_variant(const std::string& metric, const std::string& id) {
  const std::string wanted = id + ".";
  for (std::size_t at = metric.find(wanted); at != std::string::npos; at = metric.find(wanted, at + 1)) {
    const char before = at == 0 ? ' ' : metric[at - 1];
    if (!std::isalnum(static_cast<unsigned char>(before)) && before != '_' && before != '-' && before != '.')
      return true;
  }
  return false;
}

}  // namespace

bool has_timeline(const VariantResult& variant) {
  const auto& time = variant.mean_breakdown.time;
  return std::any_of(time.begin(), time.end(), [](Picoseconds part) { return part != 0; });
}

bool has_timeline(const CaseResult& result) {
  return std::any_of(result.variants.begin(), result.variants.end(),
                     [](const VariantResult& variant) { return has_timeline(variant); });
}

Sampling sampling_of(const VariantResult& variant) {
  Sampling sampling;
  if (!(variant.iteration_s > 0)) return sampling;
  std::vector<double> samples = variant.step_samples_s;
  sampling.n = std::max<std::size_t>(1, samples.size());
  if (samples.size() < 2) return sampling;
  std::sort(samples.begin(), samples.end());
  const double middle = median(samples);
  if (middle > 0) sampling.spread = (samples.back() - samples.front()) / middle;
  return sampling;
}

Sampling sampling_of(const CheckResult& check, const CaseResult& result) {
  Sampling sampling;
  if (!check.value) return sampling;
  for (const VariantResult& variant : result.variants) {
    if (!names_variant(check.metric, variant.id)) continue;
    const Sampling own = sampling_of(variant);
    const std::size_t n = std::max<std::size_t>(1, own.n);
    sampling.n = sampling.n == 0 ? n : std::min(sampling.n, n);
    if (own.spread) sampling.spread = std::max(sampling.spread.value_or(0), *own.spread);
  }
  sampling.n = std::max<std::size_t>(1, sampling.n);
  return sampling;
}

std::string format_spread(const Sampling& sampling, std::string_view device) {
  if (sampling.n == 0) return "–";
  if (device == "sim" && sampling.spread.value_or(0) == 0) return "exact";
  return sampling.spread ? format_percent(*sampling.spread) : "–";
}

std::string format_delta(const CheckResult& check) {
  if (!check.value) return "";
  const auto relative = [&](double reference) -> std::string {
    if (*check.value == reference) return "0 %";
    if (reference == 0) return "";
    const double share = (*check.value - reference) / std::abs(reference);
    return (share > 0 ? "+" : "−") + format_percent(std::abs(share));
  };
  if (check.target) return relative(*check.target);
  if (check.pass_low && check.pass_high && *check.pass_low == *check.pass_high) return relative(*check.pass_low);
  if (check.pass_low && *check.value < *check.pass_low) return relative(*check.pass_low);
  if (check.pass_high && *check.value > *check.pass_high) return relative(*check.pass_high);
  return "";
}

std::string failure_text(const CheckResult& check) {
  if (!check.value)
    return "no value: the metric " + (check.metric.empty() ? title_of(check) : check.metric) + " is missing";
  const int digits = digits_to_tell_apart(check);
  std::string text = "got " + format_in_unit(*check.value, check.unit, digits);
  const std::string pass = format_range(check.pass_low, check.pass_high, check.unit, digits);
  const std::string warn = format_range(check.warn_low, check.warn_high, check.unit, digits);
  if (!pass.empty()) text += ", expected " + pass;
  if (!warn.empty() && warn != pass) text += " (warns within " + warn + ")";
  const auto distance = [&](double bound, const char* side) {
    if (bound != 0) text += fmt::format(", {} {}", format_percent(std::abs(*check.value / bound - 1)), side);
  };
  if (check.pass_high && *check.value > *check.pass_high) distance(*check.pass_high, "above");
  if (check.pass_low && *check.value < *check.pass_low) distance(*check.pass_low, "below");
  return text;
}

const SentBytes* furthest_from_formula(const VariantResult& variant, std::string_view kind) {
  const auto off = [](const SentBytes& sent) { return std::abs(sent.bytes - sent.expected_bytes); };
  const SentBytes* worst = nullptr;
  for (const StageResult& stage : variant.stages) {
    for (const SentBytes& sent : stage.sent) {
      if (sent.kind != kind) continue;
      if (sent.expected_bytes < 0) return &sent;
      if (!worst || off(sent) > off(*worst)) worst = &sent;
    }
  }
  return worst;
}

}  // namespace benchsuite

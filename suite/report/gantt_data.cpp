// The spans of a step in a few bytes each. Passes repeat: coded as (category, length, change of micro-batch, change of
// chunk), a step of thousands of spans has some hundred different ones, a byte or two each. The lanes' bytes, one lane behind the
// other, repeat as well, from pass to pass and from stage to stage: what was there before is said by its length and distance.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "suite/report/html_parts.h"

namespace benchsuite::html {
namespace {

constexpr std::int64_t kFinest = std::int64_t{1} << 22;  ///< quanta in a step
constexpr std::size_t kTokens = 2048;
constexpr std::size_t kOneByte = 224;
constexpr std::size_t kNumbers = kOneByte + (256 - kOneByte) * 256;

struct Token {
  int category;
  std::int64_t length;
  std::int64_t micro_batch, chunk;  ///< changes

  auto operator<=>(const Token&) const = default;
};

struct TokenHash {
  std::size_t operator()(const Token& token) const {
    const auto mixed = static_cast<std::uint64_t>(token.length) * 0x9E3779B97F4A7C15u +
                       static_cast<std::uint64_t>(token.micro_batch) * 0xC2B2AE3D27D4EB4Fu +
                       static_cast<std::uint64_t>(token.chunk) * 0x165667B19E3779F9u +
                       static_cast<std::uint64_t>(token.category);
    return mixed ^ mixed >> 32;
  }
};

bool has_no_gaps(const std::vector<GanttSpan>& spans, Picoseconds step) {
  Picoseconds now = 0;
  for (const GanttSpan& span : spans) {
    if (span.start != now || span.end <= now) return false;
    now = span.end;
  }
  return now == step;
}

/// The lane from 0 to the step's end without gaps, whatever the file it comes from holds.
std::vector<GanttSpan> filled(const StageResult& stage, Picoseconds step) {
  std::vector<GanttSpan> sorted = stage.gantt, spans;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const GanttSpan& a, const GanttSpan& b) { return a.start < b.start; });
  Picoseconds now = 0;
  for (GanttSpan span : sorted) {
    span.start = std::max(span.start, now);
    span.end = std::min(span.end, step);
    if (span.end <= span.start) continue;
    if (span.start > now) spans.push_back({Category::bubble, -1, -1, now, span.start});
    spans.push_back(span);
    now = span.end;
  }
  if (now < step) spans.push_back({Category::bubble, -1, -1, now, step});
  return spans;
}

std::vector<Token> tokens_of(const std::vector<GanttSpan>& spans, Picoseconds quantum) {
  std::vector<Token> tokens;
  std::int64_t drawn = 0, micro_batch = -1, chunk = -1;
  for (const GanttSpan& span : spans) {
    // Ends are rounded, not lengths: errors don't add up.
    const std::int64_t end = (span.end + quantum / 2) / quantum;
    if (end <= drawn) continue;
    Token token{static_cast<int>(span.category), end - drawn, 0, 0};
    if (span.category != Category::bubble) {  // waiting belongs to no micro-batch and changes none
      token.micro_batch = span.micro_batch - micro_batch;
      token.chunk = span.chunk - chunk;
      micro_batch = span.micro_batch;
      chunk = span.chunk;
    }
    tokens.push_back(token);
    drawn = end;
  }
  return tokens;
}

void add_number(std::string& bytes, std::size_t value) {
  for (; value >= 128; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
  bytes += static_cast<char>(value);
}

/// LZ77: (count, that many bytes, length, distance) over and over; the end may come after the bytes. Numbers are in base 128, low
/// digits first, the eighth bit says that more follow.
std::string without_repeats(const std::string& bytes) {
  constexpr std::size_t kHashed = 4, kWorthIt = 6, kCandidates = 16, kNoPlace = ~std::size_t{0};
  std::vector<std::size_t> latest(1 << 15, kNoPlace), earlier(bytes.size(), kNoPlace);
  const auto slot_of = [&](std::size_t at) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, kHashed);
    return word * 2654435761u >> 17;
  };
  std::string out;
  std::size_t literals = 0;  // where those not yet written begin
  const auto flush = [&](std::size_t at) {
    add_number(out, at - literals);
    out.append(bytes, literals, at - literals);
  };
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t length = 0, distance = 0;
    if (at + kHashed <= bytes.size()) {
      std::size_t place = latest[slot_of(at)];
      for (std::size_t i = 0; i < kCandidates && place != kNoPlace; ++i, place = earlier[place]) {
        std::size_t same = 0;
        while (at + same < bytes.size() && bytes[place + same] == bytes[at + same]) ++same;
        if (same > length) length = same, distance = at - place;
      }
    }
    const bool repeats = length >= kWorthIt;
    if (repeats) {
      flush(at);
      add_number(out, length);
      add_number(out, distance);
      literals = at + length;
    }
    for (const std::size_t end = at + (repeats ? length : 1); at < end; ++at) {
      if (at + kHashed > bytes.size()) continue;
      std::size_t& place = latest[slot_of(at)];
      earlier[at] = place;
      place = at;
    }
  }
  flush(bytes.size());
  return out;
}

std::string base64(const std::string& bytes) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve(bytes.size() * 4 / 3 + 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (j < have ? static_cast<std::uint8_t>(bytes[i + j]) : std::uint32_t{0});
    for (std::size_t j = 0; j < 4; ++j) text += j <= have ? letters[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

}  // namespace

std::string gantt_data(const VariantResult& variant) {
  std::vector<std::vector<GanttSpan>> repaired(variant.stages.size());
  std::vector<const std::vector<GanttSpan>*> lanes;
  for (std::size_t lane = 0; lane < variant.stages.size(); ++lane) {
    const StageResult& stage = variant.stages[lane];
    const bool sound = has_no_gaps(stage.gantt, variant.step);
    if (!sound) repaired[lane] = filled(stage, variant.step);
    lanes.push_back(sound ? &stage.gantt : &repaired[lane]);
  }
  Picoseconds quantum = std::max<Picoseconds>(1, (variant.step + kFinest - 1) / kFinest);
  std::vector<std::vector<Token>> coded(lanes.size());
  std::unordered_map<Token, std::size_t, TokenHash> count;
  for (;; quantum *= 2) {
    count.clear();
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      coded[lane] = tokens_of(*lanes[lane], quantum);
      for (const Token& token : coded[lane]) ++count[token];
    }
    // No schedule needs more; a file made by hand may, and gets a coarser picture, at worst one colour a lane.
    if (count.size() <= (quantum > variant.step / 1024 ? kNumbers : kTokens) || quantum > variant.step) break;
  }
  // The most frequent ones have the short numbers.
  std::vector<std::pair<std::size_t, Token>> order;
  for (const auto& [token, times] : count) order.emplace_back(times, token);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  order.resize(std::min(order.size(), kNumbers));
  std::unordered_map<Token, std::size_t, TokenHash> number;
  Page page;
  page.add("{{\"step\":{},\"quantum\":{},\"stages\":[", variant.step, quantum);
  for (std::size_t i = 0; i < variant.stages.size(); ++i) page.add("{}{}", i ? "," : "", variant.stages[i].stage);
  page.raw("],\"tokens\":[");
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Token& token = order[i].second;
    number.emplace(token, i);
    page.add("{}{},{},{},{}", i ? "," : "", token.category, token.length, token.micro_batch, token.chunk);
  }
  page.raw("],\"sizes\":[");
  std::string bytes;
  for (std::size_t lane = 0; lane < coded.size(); ++lane) {
    const std::size_t before = bytes.size();
    for (const Token& token : coded[lane]) {
      const auto at = number.find(token);
      if (at == number.end()) continue;
      if (at->second < kOneByte) {
        bytes += static_cast<char>(at->second);
      } else {
        bytes += static_cast<char>((at->second - kOneByte) / 256 + kOneByte);
        bytes += static_cast<char>((at->second - kOneByte) % 256);
      }
    }
    page.add("{}{}", lane ? "," : "", bytes.size() - before);
  }
  page.add("],\"lanes\":\"{}\"", base64(without_repeats(bytes)));
  page.raw("}");
  return page.take();
}

}  // namespace benchsuite::html

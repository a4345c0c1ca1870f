// The picture's data, read back as the page's script reads it.
#include <gtest/gtest.h>

#include <array>

#include "suite/report/html_parts.h"
#include "tests/suite/report/fixture.h"

namespace benchsuite {
namespace {

/// What the script does with gantt_data, once more in C++: spans as [category, micro-batch, chunk, end in quanta].
std::vector<std::array<std::int64_t, 4>> decoded(const Json& data, std::size_t lane) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint32_t> packed, all;
  std::uint32_t bits = 0;
  int have = 0;
  for (char c : data.at("lanes").get<std::string>()) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(letters.find(c));
    have += 6;
    if (have >= 8) packed.push_back(bits >> (have -= 8) & 255);
  }
  std::size_t at = 0;
  const auto number = [&] {
    std::size_t value = 0, shift = 0;
    for (bool more = true; more; shift += 7) {
      value |= (packed.at(at) & 127u) << shift;
      more = packed[at++] > 127;
    }
    return value;
  };
  while (at < packed.size()) {
    for (std::size_t n = number(); n-- > 0;) all.push_back(packed.at(at++));
    if (at == packed.size()) break;
    const std::size_t length = number(), distance = number();
    for (std::size_t n = 0; n < length; ++n) all.push_back(all.at(all.size() - distance));
  }
  std::size_t first = 0;
  for (std::size_t before = 0; before < lane; ++before) first += data.at("sizes")[before].get<std::size_t>();
  EXPECT_LE(first + data.at("sizes")[lane].get<std::size_t>(), all.size());
  const std::vector<std::uint32_t> bytes(all.begin() + static_cast<std::ptrdiff_t>(first),
                                         all.begin() + static_cast<std::ptrdiff_t>(first + data.at("sizes")[lane].get<std::size_t>()));
  std::vector<std::array<std::int64_t, 4>> spans;
  std::int64_t end = 0, micro_batch = -1, chunk = -1;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::size_t token = bytes[i];
    if (token >= 224) token = (token - 224) * 256 + bytes.at(++i) + 224;
    const auto part = [&](std::size_t k) { return data.at("tokens").at(4 * token + k).get<std::int64_t>(); };
    end += part(1);
    micro_batch += part(2);
    chunk += part(3);
    spans.push_back({part(0), micro_batch, chunk, end});
  }
  return spans;
}

// A step whose passes repeat takes a fraction of a byte a span.
TEST(GanttData, RepeatsAreSaidOnce) {
  benchsuite::Run run = synthetic_run();
  VariantResult& v = run.cases[0].variants[0];
  v.step = Picoseconds{1000} << 22;  // spans are whole quanta: no rounding tells passes apart
  const Picoseconds length = v.step / 2048;
  std::size_t spans = 0;
  for (StageResult& stage : v.stages) {
    stage.gantt.clear();
    for (int i = 0; i < 1024; ++i) {
      const Picoseconds at = 2 * length * i;
      stage.gantt.push_back({Category::forward, i, 0, at, at + length});
      stage.gantt.push_back({Category::backward, i, 0, at + length, at + 2 * length});
    }
    spans += stage.gantt.size();
  }
  EXPECT_LT(html::gantt_data(v).size(), 400 + spans / 8);
}

TEST(GanttData, HoldsEverySpanToTheQuantum) {
  const benchsuite::Run run = synthetic_run(true);
  for (const VariantResult& v : run.cases[0].variants) {
    const Json data = Json::parse(html::gantt_data(v));
    const auto quantum = data.at("quantum").get<std::int64_t>();
    EXPECT_LE(quantum, v.step / 100'000);
    for (std::size_t lane = 0; lane < v.stages.size(); ++lane) {
      const auto spans = decoded(data, lane);
      EXPECT_NEAR(static_cast<double>(spans.back()[3] * quantum), static_cast<double>(v.step), static_cast<double>(quantum));
      std::size_t at = 0;
      for (const GanttSpan& span : v.stages[lane].gantt) {
        if (span.end - span.start < 2 * quantum) continue;
        while (at < spans.size() && spans[at][3] * quantum < span.end - quantum) ++at;
        ASSERT_LT(at, spans.size());
        EXPECT_EQ(spans[at][0], static_cast<int>(span.category));
        EXPECT_EQ(spans[at][1], span.micro_batch);
        EXPECT_EQ(spans[at][2], span.chunk);
        EXPECT_NEAR(static_cast<double>(spans[at][3] * quantum), static_cast<double>(span.end), static_cast<double>(quantum));
      }
    }
  }
}

TEST(GanttData, ManyStagesAndMicroBatchesStaySmall) {
  // 1F1B of 64 stages and 512 micro-batches, lengths that don't divide, forward, collective, recompute and backward each.
  VariantResult v = wide_variant(64, 512);
  const std::string data = html::gantt_data(v);
  EXPECT_LT(data.size(), 600'000u);
  // Waits at the start, for the first gradient and at the end are spans too.
  EXPECT_EQ(decoded(Json::parse(data), 63).size(), v.stages[63].gantt.size() + 3);
}

TEST(GanttData, OddInputGetsACoarserPictureNotAHang) {
  VariantResult v;
  v.step = 1'000'000'007;
  v.stages.resize(2);
  std::int64_t at = 0;
  for (int i = 0; i < 30'000; ++i) {  // no two spans alike
    const std::int64_t end = at + 1 + (i * 7919LL) % 60'000;
    if (end > v.step) break;
    v.stages[0].gantt.push_back({Category::forward, i * 31 % 9973, 0, at, end});
    at = end;
  }
  v.stages[1].gantt.push_back({Category::forward, 0, 0, -5, 2 * v.step});  // outside the step: cut
  const auto spans = decoded(Json::parse(html::gantt_data(v)), 1);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0][0], 0);
}

}  // namespace
}  // namespace benchsuite

// conform: the table, the verdicts, and that a broken engine does not pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "suite/conform/conform.h"
#include "suite/conform/layout_words.h"
#include "suite/report/conform_html.h"
#include "suite/report/conform_json.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::atomic<int> kNoSignal = 0;

ConformReport conform(const ConformOptions& options) { return run_conform(options, {}, kNoSignal); }

std::string failures_of(const ConformReport& report) {
  std::string text;
  for (const ConformRow& row : report.rows) {
    if (!row.pass) text += row.id + ": " + row.note + "\n";
  }
  return text;
}

TEST(ConformTable, LayoutsAreDistinctValidAndMany) {
  std::vector<TrainConfig> seen;
  std::set<std::string> ids;
  std::map<std::string, int> layouts;
  for (const ConformSetup& setup : conform_setups()) {
    EXPECT_TRUE(ids.insert(setup.id).second) << setup.id;
    EXPECT_TRUE(validate(setup.config, "", Wanted::numbers).empty()) << setup.id;
    for (const TrainConfig& other : seen) {
      EXPECT_FALSE(other.model == setup.config.model && other.layout == setup.config.layout && other.stack == setup.config.stack)
          << setup.id << " stands twice";
    }
    seen.push_back(setup.config);
    if (!setup.layout.empty()) ++layouts[setup.id.substr(0, setup.id.rfind('/'))];
  }
  EXPECT_EQ(layouts.size(), 6u);
  for (const auto& [group, count] : layouts) EXPECT_GE(count, group.starts_with("llama-fused/") ? 10 : 80) << group;
}

TEST(ConformTable, CoversEveryDimension) {
  std::set<std::int64_t> tp, pp, dp, vpp, group, micro_batch;
  std::set<int> zero;
  std::set<ScheduleKind> schedules;
  std::set<std::string> recompute;
  for (const ConformSetup& setup : conform_setups()) {
    const Layout& layout = setup.config.layout;
    tp.insert(layout.tp), pp.insert(layout.pp), dp.insert(layout.dp), vpp.insert(layout.vpp);
    group.insert(layout.microbatch_group), micro_batch.insert(layout.micro_batch), zero.insert(layout.zero_stage);
    schedules.insert(layout.schedule);
    recompute.insert(to_json(layout).at("recompute").dump());
  }
  EXPECT_EQ(tp, (std::set<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(pp, (std::set<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(dp, (std::set<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(vpp, (std::set<std::int64_t>{1, 2, 4}));
  EXPECT_GE(group.size(), 2u);
  EXPECT_EQ(micro_batch, (std::set<std::int64_t>{1, 2}));
  EXPECT_EQ(zero, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(schedules.size(), 3u);
  EXPECT_GE(recompute.size(), 10u);
}

/// The setup of `words` in fp32.
TrainConfig gpt(const std::string& words) {
  for (const ConformSetup& setup : conform_setups()) {
    if (setup.layout == words && setup.id.starts_with("gpt-tiny/fp32/")) return setup.config;
  }
  ADD_FAILURE() << words << " is not in the table";
  return {};
}

bool same(const TrainConfig& a, const TrainConfig& b) { return a.layout == b.layout && a.stack == b.stack; }

TEST(ConformTable, EveryWordIsExplainedAndUsed) {
  std::vector<ConformRow> rows;
  for (const ConformSetup& setup : conform_setups()) rows.push_back({.layout = setup.layout});
  EXPECT_EQ(explained_words(rows).size(), layout_words().size());
  const auto few = explained_words({{.layout = "tp4 sp"}, {.layout = "tp2 blocking-tp"}});
  ASSERT_EQ(few.size(), 3u);
  EXPECT_EQ(few[0].word, "tpN");
  EXPECT_EQ(few[1].word, "sp");
  EXPECT_EQ(few[2].word, "blocking-tp");
  for (const char* none : {"tp", "tp0", "tpx", "tp-1", "sp2", "b", ""}) EXPECT_EQ(find_layout_word(none), nullptr) << none;
}

TEST(ConformTable, WhatMustBeEqualBitForBitIsTheDesigns) {
  const auto partner = [](const std::string& words) { return bit_equal_partner(gpt(words)); };
  // Recompute, schedules, overlap, and ZeRO 0 = 1, 2 = 3; all four with one micro-batch.
  EXPECT_TRUE(same(partner("full2"), gpt("")));
  EXPECT_TRUE(same(partner("core norm mlp"), gpt("")));
  EXPECT_TRUE(same(partner("pp4 v2 g8"), gpt("")));
  EXPECT_TRUE(same(partner("pp4 gpipe overlap-pp"), gpt("")));
  EXPECT_TRUE(same(partner("dp2 zero1 overlap-dp"), gpt("dp2")));
  EXPECT_TRUE(same(partner("dp2 zero3 nothing-kept"), gpt("dp2 zero2")));
  EXPECT_TRUE(same(partner("dp4 b2 zero3 by-layer"), gpt("dp4 b2")));
  EXPECT_TRUE(same(partner("tp2 sp pp2 v2 dp2 zero1 full1"), gpt("tp2 sp dp2")));
  // What goes in pieces, in tiles or over uneven stages.
  EXPECT_TRUE(same(partner("pp2 v2 long-start full2"), gpt("")));
  EXPECT_TRUE(same(partner("tp4 sp tiles"), gpt("tp4 sp tiles")));
  EXPECT_TRUE(same(partner("tp2 sp pp2 tiles full1"), gpt("tp2 sp tiles")));
  EXPECT_TRUE(same(partner("tp4 pp2 v2 scattered block1 distributed"), gpt("tp4")));
  // Sums in another order are no partners of anything but themselves.
  for (const char* words : {"tp2", "tp2 sp", "dp2", "flash", "b2", "dp2 zero2"}) EXPECT_TRUE(same(partner(words), gpt(words)));
}

// The whole table, two steps: `benchsuite conform` trains twenty.
TEST(Conform, EveryLayoutConforms) {
  const ConformReport report = conform({.steps = 2});
  EXPECT_EQ(failures_of(report), "");
  EXPECT_GE(report.rows.size(), 320u);
}

TEST(Conform, AMissingTiedEmbeddingReductionFails) {
  const ConformReport report =
      conform({.filter = "gpt-tiny/fp32/*pp*", .steps = 2, .faults = {.drop_tied_embedding_reduce = true}});
  ASSERT_FALSE(report.rows.empty());
  // Every one of them has pipeline stages, and so misses it.
  EXPECT_EQ(static_cast<std::size_t>(report.failures()), report.rows.size());
  EXPECT_EQ(failures_of(conform({.filter = "gpt-tiny/fp32/tp*", .steps = 1})), "");
}

TEST(Conform, AFilterTrainsThePartnerToo) {
  const ConformReport report = conform({.filter = "gpt-tiny/fp32/dp2+zero3", .steps = 1});
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].against, "gpt-tiny/fp32/dp2+zero2");
  EXPECT_EQ(report.rows[0].required, ConformRow::Required::bits);
  EXPECT_TRUE(report.rows[0].pass) << report.rows[0].note;
}

TEST(Conform, ASignalEndsIt) {
  const std::atomic<int> stop = 2;
  const ConformReport report = run_conform({.steps = 1}, {}, stop);
  EXPECT_TRUE(report.interrupted);
  EXPECT_TRUE(report.rows.empty());
}

ConformReport four_rows() {
  ConformReport report;
  report.steps = 20;
  report.rows = {{.id = "m/fp32/tp2", .layout = "tp2", .against = "m/fp32/one-rank", .max_abs_loss = 1e-6,
                  .max_rel_grad_norm = 2e-7, .pass = true},
                 {.id = "m/fp32/pp2", .layout = "pp2", .against = "m/fp32/one-rank", .required = ConformRow::Required::bits,
                  .max_abs_loss = 0.5, .max_rel_grad_norm = 0, .pass = false, .note = "not <bit-equal>"},
                 {.id = "m/bf16/pp2", .layout = "pp2", .against = "m/bf16/one-rank", .required = ConformRow::Required::bits,
                  .pass = true},
                 {.id = "m/bf16/tp2+pp2", .layout = "tp2 pp2", .against = "m/bf16/tp2", .required = ConformRow::Required::bits,
                  .pass = true}};
  report.words = {{"tpN", "tensor <ranks>"}};
  report.tolerances = {{.precision = "fp32", .loss = 1e-5, .gradient_norm = 1e-4, .reason = "another order"}};
  return report;
}

TEST(ConformReportJson, HasTheFields) {
  ConformReport report = four_rows();
  const Json json = to_json(report);
  EXPECT_EQ(json.size(), 1u);
  report.left_out = 3;
  EXPECT_EQ(to_json(report)["left_out"], 3);
  EXPECT_EQ(json["configurations"][0],
            (Json{{"id", "m/fp32/tp2"}, {"layout", "tp2"}, {"against", "m/fp32/one-rank"}, {"max_abs_loss", 1e-6},
                  {"max_rel_grad_norm", 2e-7}, {"required", "tolerance"}, {"verdict", "PASS"}}));
  EXPECT_EQ(json["configurations"][1]["required"], "bits");
  EXPECT_EQ(json["configurations"][1]["verdict"], "FAIL");
}

TEST(ConformReportHtml, ShowsRowsReasonsAndTheVerdict) {
  const std::string page = conform_html(four_rows());
  EXPECT_THAT(page, HasSubstr("<title>Conformance: FAIL</title>"));
  EXPECT_THAT(page, HasSubstr("another order"));
  EXPECT_THAT(page, HasSubstr("m/fp32: not &lt;bit-equal&gt;<p>pp2</p>"));
  EXPECT_THAT(page, Not(HasSubstr("Left out")));
  ConformReport fewer = four_rows();
  fewer.left_out = 3;
  EXPECT_THAT(conform_html(fewer), HasSubstr("Left out: 3 with more ranks than there are GPUs."));
  EXPECT_THAT(page, Not(HasSubstr("<bit-equal>")));
  EXPECT_THAT(page, HasSubstr("tensor &lt;ranks&gt;"));
  // A summary: of one layout in fp32 none is equal, of two in bf16 both are.
  EXPECT_THAT(page, HasSubstr("m/fp32<td>0 of 1<td>1 of 1<td>5.0e-01<td>1.0e-05"));
  EXPECT_THAT(page, HasSubstr("m/bf16<td>2 of 2<td>0 of 0"));
  // Sections by what a layout spreads over; the partner by its name.
  for (const char* section : {"Tensor ranks", "Pipeline stages", "Tensor ranks × pipeline stages"}) {
    EXPECT_THAT(page, HasSubstr("colspan=4>" + std::string(section) + "</tr>"));
  }
  EXPECT_THAT(page, HasSubstr("<td class=l>tp2 pp2<td class=l>bits of tp2"));
  EXPECT_THAT(page, HasSubstr("<td class=l>tp2<td class=l>near one rank"));
  ConformReport good = four_rows();
  good.rows.erase(good.rows.begin() + 1);
  EXPECT_THAT(conform_html(good), HasSubstr("<title>Conformance: PASS</title>"));
}

Finished call(const std::vector<std::string>& arguments) {
  TemporaryFolder folder;
  Launch launch;
  launch.arguments = arguments;
  launch.folder = folder.path();
  return run_program(launch);
}

TEST(ConformVerb, ExitCodesAndStreams) {
  const Finished good = call({"conform", "--filter", "gpt-tiny/fp32/pp2", "--steps", "1", "--json", "-"});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_EQ(Json::parse(good.out)["configurations"].size(), 1u);
  EXPECT_THAT(good.err, HasSubstr("PASS"));
  const Finished bad =
      call({"conform", "--filter", "gpt-tiny/fp32/pp2", "--steps", "1", "--inject", "drop-tied-embedding-reduce"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.out, HasSubstr("FAIL"));
  EXPECT_EQ(call({"conform", "--filter", "no-such-layout"}).exit_code, 4);
  EXPECT_EQ(call({"conform", "--inject", "sunshine"}).exit_code, 2);
}

}  // namespace
}  // namespace benchsuite

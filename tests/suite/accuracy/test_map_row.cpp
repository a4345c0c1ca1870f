#include "suite/accuracy/map_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "suite/accuracy/ensemble.h"
#include "suite/accuracy/row_kernels.h"

namespace benchsuite {
namespace {

using ::testing::HasSubstr;

class MapRow : public ::testing::Test {
 protected:
  MapRow() : root_(BENCHSUITE_SOURCE_DIR), stacks_(root_) {
    std::vector<Violation> problems;
    rules_ = read_source_rules(parse_json(R"({"rules": [
      {"set": "S", "id": ["s."], "stack": "megatron-2022", "why": "test",
       "defaults": {"model.vocab": 51200, "layout.recompute": "full", "layout.attention": "unfused", "layout.vpp": "layers_per_stage"},
       "unstated": [{"key": "layout.vpp", "values": [1, 2], "why": "test"}]},
      {"set": "N", "id": ["n."], "unmapped": "not ours"}], "targets": []})", "rules"), "rules", problems);
    EXPECT_TRUE(problems.empty());
    row_ = parse_json(R"({"id": "s.1", "source": "paper", "kind": "throughput",
      "model": {"family": "gpt", "name": "small", "layers": 8, "hidden": 1024, "heads": 16, "seq": 2048, "vocab": 51200},
      "cluster": {"gpu": "a100-sxm4-80gb", "gpus": 64, "gpus_per_node": 8},
      "layout": {"tp": 8, "pp": 4, "micro_batch": 2, "global_batch": 32, "precision": "fp16", "vpp": 1,
                 "sequence_parallel": true},
      "measured": {"iteration_s": 2.5}})", "row");
  }

  MappedRow map(const std::vector<Setting>& settings = {}) {
    return map_row(read_published_rows(Json::array({row_}), "t").front(), rules_, stacks_, root_, settings);
  }

  static std::vector<std::string> unstated(const MappedRow& mapped) {
    std::vector<std::string> keys;
    for (const UnstatedSetting& setting : mapped.unstated) keys.push_back(setting.key);
    return keys;
  }

  DataRoot root_;
  StackShelf stacks_;
  SourceRules rules_;
  Json row_;
};

/// What a source's scripts turn on beside their software's defaults; what a setting says comes after.
TEST_F(MapRow, ARulesDefaultsMayChangeTheStack) {
  EXPECT_FALSE(map().config.stack.fused_cross_entropy);  // megatron-2022
  rules_.rules.front().defaults.emplace_back("stack.fused_cross_entropy", true);
  EXPECT_TRUE(map().config.stack.fused_cross_entropy);
  EXPECT_FALSE(map({{"stack.fused_cross_entropy", false}}).config.stack.fused_cross_entropy);
}

TEST_F(MapRow, TakesWhatIsStatedAndListsWhatIsNot) {
  const MappedRow mapped = map();
  ASSERT_TRUE(mapped.mapped) << mapped.reason;
  EXPECT_EQ(mapped.set, "S");
  EXPECT_EQ(mapped.config.stack.name, "megatron-2022");
  EXPECT_EQ(mapped.hardware, "dgx-a100-80g");
  const Layout& layout = mapped.config.layout;
  EXPECT_EQ(layout.dp, 2);  // 64 / (8 x 4)
  EXPECT_EQ(layout.micro_batches(), 8);
  EXPECT_EQ(layout.vpp, 1);
  EXPECT_EQ(layout.precision, DType::fp16);
  EXPECT_TRUE(layout.sequence_parallel);
  EXPECT_EQ(layout.recompute.granularity, RecomputeGranularity::full);
  EXPECT_EQ(layout.attention, AttentionKernel::unfused);
  EXPECT_THAT(mapped.assumptions, ::testing::Contains(HasSubstr("layout.recompute")));
  EXPECT_THAT(mapped.assumptions, ::testing::Contains(HasSubstr("loss scale are not counted")));
  EXPECT_THAT(unstated(mapped), ::testing::Not(::testing::Contains("layout.vpp"))) << "the row states it";
  EXPECT_THAT(unstated(mapped), ::testing::Not(::testing::Contains("layout.sequence_parallel"))) << "the row states it";
}

TEST_F(MapRow, KernelsOfARowAreTheStacks) {
  row_["layout"].update({{"attention", "flash"}, {"attention_kernel", "flash1"}, {"rmsnorm_kernel", false}});
  EXPECT_EQ(map().config.stack.fused_attention, FusedAttention::flash_1);
  EXPECT_FALSE(map().config.stack.fused_norm);
  row_["layout"].update({{"attention_kernel", "flash2"}, {"rmsnorm_kernel", true}});
  EXPECT_EQ(map().config.stack.fused_attention, FusedAttention::flash_2);
  EXPECT_TRUE(map().config.stack.fused_norm);
  row_["layout"]["attention_kernel"] = "quick";
  EXPECT_THAT(map().assumptions, ::testing::Contains(HasSubstr("\"quick\" is none that a profile has rates of")));
  row_["layout"].update({{"attention", "unfused"}, {"attention_kernel", "unfused (fused softmax kernel)"}});
  EXPECT_TRUE(map().config.stack.fused_softmax);
  row_["layout"].erase("attention_kernel");
  EXPECT_FALSE(map().config.stack.fused_softmax) << "the row tells kernels apart and names none";
  row_["layout"].erase("rmsnorm_kernel");
  EXPECT_TRUE(map().config.stack.fused_softmax) << "the row says nothing of kernels";
}

TEST_F(MapRow, StagesAreDividedAsTheSoftwareDoes) {
  EXPECT_TRUE(split_of(Json("embedding and loss"), 64, 8, 1).even());
  EXPECT_TRUE(split_of(Json("embedding and loss"), 62, 8, 1).counts_loss);
  EXPECT_TRUE(split_of(Json("embedding and loss"), 61, 8, 1).even()) << "neither divides: validation says so";
  EXPECT_TRUE(split_of(Json("layers in turn"), 84, 12, 1).even());
  EXPECT_TRUE(split_of(Json("layers in turn"), 82, 12, 1).counts_embedding);
  EXPECT_THAT(split_of(Json("layers in turn"), 78, 12, 1).stages, ::testing::ElementsAre(7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1));
  EXPECT_TRUE(split_of(Json("layers in turn"), 61, 12, 1).even()) << "eleven stages of 6 leave none: validation says so";
  // 63 modules on 16 stages: fifteen of 4, one of 3; the first holds the embedding, the last the norm and the head.
  EXPECT_THAT(split_of(Json("uniform modules"), 60, 16, 1).stages,
              ::testing::ElementsAre(3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1));
  EXPECT_TRUE(split_of(Json("uniform modules"), 60, 1, 1).even());
}

TEST_F(MapRow, UnstatedSettingsAreDrawnOnlyWhereTheRowIsSilent) {
  row_["layout"].erase("vpp");
  const MappedRow mapped = map();
  ASSERT_TRUE(mapped.mapped) << mapped.reason;
  EXPECT_EQ(mapped.config.layout.vpp, 2);  // 8 layers on 4 stages, one a chunk
  EXPECT_EQ(mapped.config.layout.schedule, ScheduleKind::interleaved);
  EXPECT_THAT(unstated(mapped), ::testing::Contains("layout.vpp").Times(1)) << "the rule's, in place of the stack's";
  EXPECT_EQ(map({{"layout.vpp", 1}}).config.layout.vpp, 1);
}

TEST_F(MapRow, TheStackSaysWhatItsSoftwareLeavesOpen) {
  // megatron-2022: --no-async-tensor-model-parallel-allreduce, --accumulate-allreduce-grads-in-fp32
  EXPECT_THAT(unstated(map()), ::testing::UnorderedElementsAre("stack.overlaps_tensor_backward", "stack.gradient_dtype"));
  EXPECT_FALSE(map({{"stack.overlaps_tensor_backward", false}}).config.stack.overlaps_tensor_backward);
  EXPECT_EQ(map({{"stack.gradient_dtype", "bf16"}}).config.stack.gradient_dtype, DType::bf16);
  row_["layout"]["tp"] = 1;
  row_["layout"]["sequence_parallel"] = false;
  EXPECT_THAT(unstated(map()), ::testing::ElementsAre("stack.gradient_dtype")) << "one tensor rank overlaps nothing";
  rules_.rules.front().stated = {"stack.gradient_dtype"};
  EXPECT_THAT(unstated(map()), ::testing::IsEmpty()) << "the source says it of all rows";
}

TEST_F(MapRow, DrawsOfSettingsRepeatAndReachEveryValue) {
  const std::vector<UnstatedSetting> settings = {{"layout.vpp", {1, 2, 3}, ""}, {"stack.gradient_dtype", {"bf16", "fp32"}, ""}};
  std::set<std::string> seen, of_other_set;
  for (int draw = 0; draw < 200; ++draw) {
    const auto text = [&](const std::string& set, std::uint64_t seed) {
      std::string all;
      for (const Setting& setting : drawn_settings(settings, set, seed, draw, 0)) all += setting.key + setting.value.dump();
      return all;
    };
    EXPECT_EQ(text("S", 1), text("S", 1));
    seen.insert(text("S", 1));
    if (text("S", 1) != text("T", 1)) of_other_set.insert(text("T", 1));
  }
  EXPECT_EQ(seen.size(), 6u) << "every combination";
  EXPECT_EQ(of_other_set.size(), 6u) << "sets draw apart";
}

TEST_F(MapRow, RatesBecomeSeconds) {
  // 32 samples of 2048 tokens on 64 GPUs.
  row_["measured"] = {{"tokens_per_s_per_gpu", 512}};
  EXPECT_DOUBLE_EQ(map().published.iteration_s, 2.0);
  row_["measured"] = {{"tokens_per_s", 16384}};
  EXPECT_DOUBLE_EQ(map().published.iteration_s, 4.0);
  row_["measured"] = {{"samples_per_s_per_gpu", 0.25}};
  EXPECT_DOUBLE_EQ(map().published.iteration_s, 2.0);
  // 72 x 32 x 2048 x 8 x 1024^2 (1 + 2048/6144 + 51200/98304) = 7.3317e14 over 64 GPUs at 10 TFLOP/s
  row_["measured"] = {{"tflops_per_gpu", 10}, {"flop_convention", "korthikanti-2022"}};
  const double flops = 72.0 * 32 * 2048 * 8 * 1024 * 1024 * (1 + 1.0 / 3 + 51200.0 / 98304);
  EXPECT_NEAR(map().published.iteration_s, flops / (64 * 10e12), 1e-9);
  EXPECT_EQ(map().published.from, "tflops_per_gpu by korthikanti-2022");
  row_["measured"] = {{"tflops_per_gpu", 10}, {"flop_convention", "a guess"}};
  EXPECT_FALSE(map().mapped);
}

TEST_F(MapRow, MicroBatchFollowsFromTheNumberOfThem) {
  row_["layout"].erase("micro_batch");
  row_["layout"]["num_microbatches"] = 4;
  EXPECT_EQ(map().config.layout.micro_batch, 4);  // 32 / (4 x 2)
}

TEST_F(MapRow, EveryReasonIsNamed) {
  const auto reason = [&](const std::function<void()>& change) {
    const Json kept = row_;
    change();
    const MappedRow mapped = map();
    row_ = kept;
    EXPECT_FALSE(mapped.mapped);
    return mapped.reason;
  };
  EXPECT_THAT(reason([&] { row_["layout"].erase("tp"); }), HasSubstr("layout.tp is not stated"));
  EXPECT_THAT(reason([&] { row_["model"]["family"] = "moe"; }), HasSubstr("mixture-of-experts"));
  EXPECT_THAT(reason([&] { row_["model"]["family"] = "rwkv"; }), HasSubstr("rwkv"));
  EXPECT_THAT(reason([&] { row_["cluster"]["gpu"] = "tpuv4"; }), HasSubstr("tpuv4"));
  EXPECT_THAT(reason([&] { row_["layout"]["dp"] = 3; }), HasSubstr("64 GPUs"));
  EXPECT_THAT(reason([&] { row_["cluster"]["gpus"] = 60; }), HasSubstr("no multiple"));
  EXPECT_THAT(reason([&] { row_["layout"]["precision"] = "nvfp4"; }), HasSubstr("nvfp4"));
  EXPECT_THAT(reason([&] { row_["layout"]["schedule"] = "zb-2p"; }), HasSubstr("zb-2p"));
  EXPECT_THAT(reason([&] { row_["measured"] = Json::object(); }), HasSubstr("nothing that was measured"));
  EXPECT_THAT(reason([&] { row_["kind"] = "config_only"; }), HasSubstr("only the configuration"));
  EXPECT_THAT(reason([&] { row_["model"]["hidden"] = 1000; }), HasSubstr("model.hidden"));
  EXPECT_THAT(reason([&] { row_["id"] = "n.1"; }), HasSubstr("not ours"));
  EXPECT_THAT(reason([&] { row_["id"] = "elsewhere"; }), HasSubstr("no rule"));
  EXPECT_THAT(reason([&] { row_["model"] = 3; }), HasSubstr("model is no object"));
}

// Whatever stands for a count, the row is refused in words: nothing divides by zero or overflows.
TEST_F(MapRow, CountsThatAreNoneAreRefused) {
  const Json good = row_;
  const std::pair<const char*, const char*> counts[] = {
      {"model", "layers"},       {"model", "hidden"},        {"model", "heads"},     {"model", "kv_heads"},
      {"model", "seq"},          {"model", "vocab"},         {"cluster", "gpus"},    {"layout", "tp"},
      {"layout", "pp"},          {"layout", "cp"},           {"layout", "vpp"},      {"layout", "dp"},
      {"layout", "micro_batch"}, {"layout", "global_batch"}, {"layout", "num_microbatches"}};
  for (const auto& [part, key] : counts) {
    for (const Json& odd : {Json(0), Json(-0.0), Json(-2), Json(2.5), Json(1e18), Json(1e308), Json(std::int64_t{1} << 62)}) {
      row_ = good;
      row_[part][key] = odd;
      if (std::string(key) == "num_microbatches") row_["layout"].erase("micro_batch");
      const MappedRow mapped = map();
      EXPECT_FALSE(mapped.mapped) << key << " = " << odd;
      EXPECT_THAT(mapped.reason, HasSubstr(std::string(part) + "." + key + " = " + odd.dump())) << mapped.reason;
    }
  }
}

// A wrong type is no default: key and value are named.
TEST_F(MapRow, WrongTypesAreRefused) {
  const Json good = row_;
  const std::tuple<const char*, const char*, Json> wrong[] = {
      {"layout", "sequence_parallel", "true"}, {"layout", "sequence_parallel", 1}, {"layout", "schedule", 3},
      {"layout", "variant", 3},                {"layout", "recompute_modules", 3}, {"layout", "dp", "2"},
      {"layout", "micro_batch", "2"},          {"layout", "global_batch", "32"},   {"layout", "fsdp_group", "8"},
      {"model", "experts", "8"},               {"model", "dropout", "0.1"},        {"cluster", "gpus_per_node", "8"},
      {"measured", "peak_memory_gb", "60"},    {"measured", "iteration_s", "2.5"}};
  for (const auto& [part, key, odd] : wrong) {
    row_ = good;
    row_[part][key] = odd;
    EXPECT_FALSE(map().mapped) << key;
    EXPECT_THAT(map().reason, HasSubstr(std::string(part) + "." + key + " = " + odd.dump()));
  }
  row_ = good;
  row_["cluster"]["gpus"] = 16;
  row_["layout"].update({{"pp", 1}, {"vpp", 2}});
  EXPECT_TRUE(map().mapped) << map().reason;
  row_["layout"]["vpp"] = "2";
  EXPECT_THAT(map().reason, HasSubstr("layout.vpp = \"2\""));
}

// A time that can't have been measured is a reason, never a number, and no other key takes its place.
TEST_F(MapRow, AbsurdMeasurementsAreRefused) {
  for (const Json& odd : {Json(1e-300), Json(9e-7), Json(0), Json(-1), Json(1.1e6), Json(1e300), Json("1"), Json(true)}) {
    row_["measured"] = {{"iteration_s", odd}, {"tokens_per_s_per_gpu", 512}};
    EXPECT_FALSE(map().mapped) << odd;
    EXPECT_THAT(map().reason, HasSubstr("measured.iteration_s = " + odd.dump()));
    EXPECT_LT(map().reason.size(), 100u);
  }
  // 32 samples of 2048 tokens on 64 GPUs: 1,024 tokens a GPU and step, half a sample.
  for (const auto& [key, work] : {std::pair("tokens_per_s_per_gpu", 1024.0), std::pair("tokens_per_s", 65536.0),
                                  std::pair("samples_per_s_per_gpu", 0.5)}) {
    for (const double odd : {0.0, -1.0, 1e-300, work / 1.1e6, work / 0.9e-6, 1e300}) {
      row_["measured"] = {{key, odd}};
      EXPECT_THAT(map().reason, HasSubstr(std::string("measured.") + key + " = ")) << odd;
    }
    row_["measured"] = {{key, work / 0.9e6}};
    EXPECT_TRUE(map().mapped) << map().reason;
  }
  row_["measured"] = {{"iteration_s", nullptr}, {"tokens_per_s_per_gpu", 512}};
  EXPECT_TRUE(map().mapped) << map().reason;
  row_["measured"]["peak_memory_gb"] = -1;
  EXPECT_THAT(map().reason, HasSubstr("measured.peak_memory_gb = -1"));
  row_["measured"] = {{"layer_forward_ms", 0}, {"layer_backward_ms", 1}};
  EXPECT_THAT(map().reason, HasSubstr("measured.layer_forward_ms = 0"));
}

TEST_F(MapRow, OffloadingIsRefusedUnderAnyOfItsNames) {
  const Json good = row_;
  for (const char* key : {"activation_cpu_offload", "cpu_offloading", "offload"}) {
    for (const Json& value : {Json(true), Json("cpu")}) {
      row_["layout"][key] = value;
      EXPECT_THAT(map().reason, HasSubstr("offloading to the host")) << key << value;
    }
    row_["layout"][key] = false;
    EXPECT_TRUE(map().mapped) << key << map().reason;
    row_ = good;
  }
}

TEST_F(MapRow, NodesAreThoseOfTheProfile) {
  row_["cluster"]["gpus_per_node"] = 4;
  EXPECT_THAT(map().reason, HasSubstr("cluster.gpus_per_node = 4: the profile dgx-a100-80g has 8 in a node"));
  row_["cluster"]["gpus_per_node"] = nullptr;
  EXPECT_TRUE(map().mapped) << map().reason;
  row_["cluster"].update({{"gpu", "gb200"}, {"gpus_per_node", 4}});  // trays of a rack of 72
  EXPECT_TRUE(map().mapped) << map().reason;
  row_["cluster"]["gpus_per_node"] = 8;
  EXPECT_THAT(map().reason, HasSubstr("gb200-nvl72 has 72 in a node"));
}

TEST_F(MapRow, ANetworkThatIsNotStatedIsAssumed) {
  const auto about_network = ::testing::Contains(HasSubstr("runs on the network of dgx-a100-80g"));
  EXPECT_THAT(map().assumptions, about_network);
  row_["cluster"]["interconnect"] = "carrier pigeons";
  EXPECT_THAT(map().assumptions, about_network);
  EXPECT_THAT(map().assumptions, ::testing::Contains(HasSubstr("carrier pigeons")));
  row_["cluster"]["interconnect"] = "8x 200 Gb/s";
  EXPECT_THAT(map().assumptions, ::testing::Not(::testing::Contains(HasSubstr("runs on the network"))));
  row_["cluster"].update({{"interconnect", nullptr}, {"gpus", 8}});
  row_["layout"].update({{"pp", 1}, {"tp", 8}});
  ASSERT_TRUE(map().mapped) << map().reason;
  EXPECT_THAT(map().assumptions, ::testing::Not(::testing::Contains(HasSubstr("runs on the network")))) << "one node has none";
}

// The project's own rules: an id that begins otherwise, the source's name.
TEST_F(MapRow, ARowOfAKnownSourceNeedsNoIdOfOurs) {
  rules_ = load_source_rules(root_.path() + "/expected/published/sources.json");
  row_["id"] = "mine";
  row_["layout"].update({{"recompute", "selective"}, {"attention", "unfused"}});
  const auto of = [&](const char* source) {
    row_["source"] = source;
    return map();
  };
  EXPECT_EQ(of("arXiv:2205.05198 Table 3 + Table 5").set, "Korthikanti Table 5");
  EXPECT_EQ(of("ARXIV:2205.05198, table 5").stack, "megatron-2022");
  EXPECT_EQ(of("arXiv:2205.05198 Fig. 7").set, "Korthikanti, other");
  EXPECT_EQ(of("arXiv:2104.04473v5 Table 2").set, "Narayanan Table 2, PTD-P");
  EXPECT_THAT(map().assumptions, ::testing::Not(::testing::Contains(HasSubstr("no rule knows"))));
  row_["layout"]["zero_stage"] = 3;
  EXPECT_EQ(map().set, "Narayanan Table 2, ZeRO-3");
  row_["layout"].erase("zero_stage");
  const MappedRow unknown = of("my own cluster");
  ASSERT_TRUE(unknown.mapped) << unknown.reason;
  EXPECT_THAT(unknown.assumptions,
              ::testing::Contains("stack " + unknown.stack + ": no rule knows the source \"my own cluster\""));
  row_["id"] = "korthikanti2022.table5.x";  // an id of ours comes first
  EXPECT_EQ(of("arXiv:2104.04473v5 Table 2").set, "Korthikanti Table 5");
}

TEST_F(MapRow, NicsOfTheProfileFollowTheText) {
  std::string note;
  bool stated = false;
  const auto profile = [&](const char* gpu, const char* text) {
    const ProfileOf found = profile_of({{"gpu", gpu}, {"interconnect", text}}, root_);
    note = found.note;
    stated = found.network_stated;
    return found.name;
  };
  EXPECT_EQ(profile("a100-sxm4-80gb", "NVLink3 intra-node; 4x Omni-Path 100 Gb/s per node (Jean Zay)"), "dgx-a100-80g-4x100g-opa");
  EXPECT_EQ(profile("a100-sxm4-80gb", "4x 100 Gb/s"), "dgx-a100-80g-4x100g");
  EXPECT_EQ(profile("a100-sxm4-80gb", "NVLink3; 4x HDR 200 Gb/s per node (800 Gb/s)"), "dgx-a100-80g-4x200g");
  EXPECT_EQ(profile("a100-sxm4-40gb", "1600 Gb/s node-to-node RoCE"), "dgx-a100-40g-8x200g");
  EXPECT_EQ(profile("h100-sxm5-80gb", "DGX Cloud H100 (NVLink4 + 8x400G)"), "dgx-h100-8x400g");
  EXPECT_TRUE(stated);
  EXPECT_EQ(profile("h100-sxm5-80gb", "not said"), "dgx-h100");
  EXPECT_FALSE(stated);
  EXPECT_EQ(profile("h100-sxm5-80gb", "7x 300 Gb/s"), "dgx-h100");
  EXPECT_FALSE(stated) << "no profile has these";
  EXPECT_EQ(note, "");
  EXPECT_EQ(profile("a100-sxm4-40gb-or-80gb", ""), "dgx-a100-80g");
  EXPECT_THAT(note, HasSubstr("not stated"));
  EXPECT_EQ(profile("abacus", ""), "");
  EXPECT_THAT(note, HasSubstr("abacus"));
}

}  // namespace
}  // namespace benchsuite

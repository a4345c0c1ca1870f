// hardware and calibrate on the program itself: output, files, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/device/sim/collective_model.h"
#include "suite/hardware/measured_rows.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class HardwareVerb : public testing::Test {
 protected:
  void SetUp() override { make_root(root()); }
  std::string root() const { return folder_.file("root"); }
  std::string file(const std::string& name) const { return folder_.file(name); }
  Finished call(const std::vector<std::string>& arguments, const std::string& input = "") const {
    Launch launch;
    launch.arguments = arguments;
    launch.input = input;
    launch.folder = folder_.path();
    launch.environment = {"BENCHSUITE_ROOT=" + root()};
    return run_program(launch);
  }

  TemporaryFolder folder_;
};

// NVIDIA/deepops, nvidia-network-operator.md: 2 DGX A100, 8 x 200 Gb/s; excerpt. A foreign comment that lies.
const char* const kHealthy =
    "# UNHEALTHY: 2 GPUs, 100G, alltoall\n"
    "           8            2     float   sum        38.63       0.00       0.00      2e-07        38.85       0.00   "
    "    0.00      1e-07\n"
    "        1024          256     float   sum        40.97       0.02       0.05      2e-07        49.81       0.02   "
    "    0.04      2e-07\n"
    "    16777216      4194304     float   sum        301.9      55.57     104.19      5e-07        301.9      55.57   "
    "  104.18      5e-07\n"
    "    67108864     16777216     float   sum        918.0      73.11     137.08      5e-07        902.8      74.33   "
    "  139.37      5e-07\n"
    "  1073741824    268435456     float   sum        11085      96.87     181.62      5e-07        10994      97.67   "
    "  183.13      5e-07\n"
    "  4294967296   1073741824     float   sum        42715     100.55     188.53      5e-07        42677     100.64   "
    "  188.70      5e-07\n";
// Azure/aks-rdma-infiniband, expected-output.md section 3.1: the same hardware over IPoIB; excerpt.
const char* const kBroken =
    "# healthy: 8x HDR 200 Gb/s\n"
    "        2048          512     float   sum        92.53       0.02       0.04        N/A        95.44       0.02   "
    "    0.04        N/A\n"
    "     8388608      2097152     float   sum       5563.0       1.51       2.83        N/A       5476.7       1.53   "
    "    2.87        N/A\n"
    "  2147483648    536870912     float   sum      1270070       1.69       3.17        N/A      1275973       1.68   "
    "    3.16        N/A\n"
    "  8589934592   2147483648     float   sum      5111454       1.68       3.15        N/A      5220040       1.65   "
    "    3.09        N/A\n";

TEST_F(HardwareVerb, CalibrateJudgesByTheRowsOnly) {
  write_text(file("UNHEALTHY.txt"), kHealthy);
  write_text(file("healthy.txt"), kBroken);
  const Finished good =
      call({"calibrate", "--from", "nccl-tests", "UNHEALTHY.txt", "--hardware", "dgx-a100-80g", "--out", "f.json"});
  EXPECT_EQ(good.exit_code, 0) << good.out << good.err;
  EXPECT_THAT(good.out, HasSubstr("\nverdict: healthy\n"));
  const Finished bad = call({"calibrate", "healthy.txt", "--hardware", "dgx-a100-80g"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.out, HasSubstr("\nverdict: unhealthy: no-rdma: "));

  const Json fragment = Json::parse(read_text(file("f.json")));
  EXPECT_EQ(fragment["verdict"], "healthy");
  EXPECT_EQ(fragment["hardware"], "dgx-a100-80g");
  const Json& fit = fragment["fabric"]["collectives"].at(0);
  EXPECT_EQ(fit["op"], "all_reduce");
  EXPECT_EQ(fit["ranks"], 16);
  EXPECT_EQ(fit["nodes"], 2);
  EXPECT_EQ(fit["rows"], 6);
  EXPECT_TRUE(fragment["sources"].contains(fit["source"].get<std::string>()));
  // The rows print 188.5 GB/s at the largest size: the asymptote lies above, the NICs' 8 x 25 GB/s of line rate bound
  // it loosely.
  EXPECT_GT(fit["busbw"].get<double>(), 188.5);
}

TEST_F(HardwareVerb, CalibrateFromCsv) {
  // NVIDIA/nccl issue 1676: 2 DGX nodes before and after GPUDirect RDMA was lost.
  write_text(file("before.csv"), "op,ranks,size,busbw\nall_reduce,16,1073741824,180\n");
  write_text(file("after.csv"), "op,ranks,size,busbw\nall_reduce,16,1073741824,10\n");
  EXPECT_EQ(call({"calibrate", "--from", "csv", "before.csv", "--hardware", "dgx-a100-80g"}).exit_code, 0);
  const Finished after = call({"calibrate", "--from", "csv", "after.csv", "--hardware", "dgx-a100-80g"});
  EXPECT_EQ(after.exit_code, 1);
  EXPECT_THAT(after.out, HasSubstr("GPUDirect RDMA off"));
}

TEST_F(HardwareVerb, CalibrateExitCodes) {
  write_text(file("log.txt"), kHealthy);
  write_text(file("small.txt"), "  8 2 float sum 38.63 0.00 0.00 0 38.85 0.00 0.00 0\n");
  write_text(file("empty.txt"), "no rows\n");
  const Finished none = call({"calibrate", "log.txt"});
  EXPECT_EQ(none.exit_code, 4);
  EXPECT_THAT(none.out, HasSubstr("verdict: none: no profile to judge against"));
  EXPECT_EQ(call({"calibrate", "empty.txt", "--hardware", "dgx-h100"}).exit_code, 4);
  const Finished ranks = call({"calibrate", "small.txt", "--hardware", "dgx-h100"});
  EXPECT_EQ(ranks.exit_code, 2);
  EXPECT_THAT(ranks.err, HasSubstr("--ranks"));
  const Finished unknown = call({"calibrate", "log.txt", "--hardware", "dgx-h10"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean \"dgx-h100\"?"));
  EXPECT_EQ(call({"calibrate", "absent.txt"}).exit_code, 2);
  EXPECT_EQ(call({"calibrate", "log.txt", "--from", "tsv"}).exit_code, 2);
  EXPECT_EQ(call({"calibrate", "log.txt", "--op", "sort"}).exit_code, 2);
}

TEST_F(HardwareVerb, CalibrateReadsStandardInput) {
  write_text(file("log.txt"), kBroken);
  const Finished piped = call({"calibrate", "-", "--hardware", "dgx-a100-80g", "--out", "-"}, file("log.txt"));
  EXPECT_EQ(piped.exit_code, 1);
  EXPECT_THAT(piped.err, HasSubstr("verdict: unhealthy: no-rdma"));
  EXPECT_THAT(piped.out, HasSubstr("nccl-tests, standard input (fnv1a64:"));
}

TEST_F(HardwareVerb, AFileWithoutRowsIsNothingToJudge) {
  write_text(file("nothing.txt"), "");
  const Finished empty = call({"calibrate", "nothing.txt", "--hardware", "dgx-h100"});
  EXPECT_EQ(empty.exit_code, 4);
  EXPECT_THAT(empty.err, HasSubstr("nothing.txt: no row of a collective in it"));
  EXPECT_THAT(empty.out, HasSubstr("verdict: none: no rows to judge"));
  EXPECT_THAT(call({"calibrate", folder_.path(), "--hardware", "dgx-h100"}).err, HasSubstr("can't be read"));
}

TEST_F(HardwareVerb, FragmentOnStandardOutput) {
  write_text(file("log.txt"), kHealthy);
  const Finished run = call({"calibrate", "log.txt", "--hardware", "dgx-a100-80g", "--out", "-"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(Json::parse(run.out)["kind"], "hardware fragment");
  EXPECT_THAT(run.err, HasSubstr("verdict: healthy"));
}

TEST_F(HardwareVerb, MergePutsAFragmentIntoAProfile) {
  // Eight ranks, 20 us and 150 GB/s of busbw: t = 20 us + size 1.75 / 150 GB/s. The node's own profile says 230 GB/s.
  const auto seconds = [](double size) { return 20e-6 + size * 1.75 / 150e9; };
  std::string rows = "op,ranks,size,busbw\n";
  for (std::int64_t size = 1 << 16; size <= std::int64_t{1} << 30; size *= 4) {
    const auto bytes = static_cast<double>(size);
    rows += "all_reduce,8," + std::to_string(size) + "," + std::to_string(bytes * 1.75 / seconds(bytes) / 1e9) + "\n";
  }
  write_text(file("rows.csv"), rows);
  ASSERT_EQ(call({"calibrate", "--from", "csv", "rows.csv", "--out", "fragment.json"}).exit_code, 4) << "fitted, not judged";
  const Finished valid = call({"validate", "fragment.json"});
  EXPECT_EQ(valid.exit_code, 0);
  EXPECT_THAT(valid.out, HasSubstr("(hardware fragment)"));
  const Finished merged = call({"hardware", "merge", "dgx-a100-80g-4x100g", "fragment.json", "--out", "mine.json"});
  ASSERT_EQ(merged.exit_code, 0) << merged.err;
  EXPECT_EQ(call({"validate", "mine.json"}).exit_code, 0);

  const HardwareProfile mine = load_hardware(file("mine.json"));
  EXPECT_EQ(mine.name, "mine");
  EXPECT_EQ(mine.nics_per_node, 4) << "the rest is the base's, resolved";
  const CollectiveSpan node{8, 1, 8, 1};
  for (const double size : {1e6, 1e9})
    EXPECT_NEAR(collective_time(mine, Collective::all_reduce, size, node).seconds / seconds(size), 1, 0.01);
  const HardwareProfile base = load_hardware(root() + "/cases/hardware/dgx-a100-80g.json");
  EXPECT_EQ(collective_time(mine, Collective::all_gather, 1e8, node).seconds,
            collective_time(base, Collective::all_gather, 1e8, node).seconds);
  EXPECT_THAT(mine.raw["sources"].dump(), HasSubstr("rows.csv"));

  write_text(file("broken.json"), R"({"schema_version": 1, "kind": "hardware fragment", "hardware": null, "verdict": "none",
    "sources": {}, "judgement": [], "nvlink": {"collectives": [{"op": "sort", "ranks": 1, "a": 1, "busbw": 0, "c": 0,
    "source": "x", "rows": 5, "fit_error": {"median": 0, "p90": 0}}]}})");
  const Finished broken = call({"validate", "broken.json"});
  EXPECT_EQ(broken.exit_code, 2);
  for (const char* word : {"op = \"sort\"", "ranks = 1", "busbw = 0", "not a key of \"sources\""})
    EXPECT_THAT(broken.out, HasSubstr(word));
  EXPECT_EQ(call({"hardware", "merge", "dgx-h100", "mine.json", "--out", "x.json"}).exit_code, 2) << "no fragment";
}

TEST_F(HardwareVerb, ListAndShow) {
  const Finished list = call({"hardware", "list"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, AllOf(HasSubstr("dgx-h100 "), HasSubstr("ideal"), HasSubstr("A100-SXM4-80GB")));
  const Json json = Json::parse(call({"hardware", "list", "--json"}).out);
  EXPECT_GE(json.size(), 5u);
  const Finished show = call({"hardware", "show", "dgx-h100"});
  EXPECT_EQ(show.exit_code, 0) << show.err;
  EXPECT_THAT(show.out, AllOf(HasSubstr("memory_bandwidth"), HasSubstr("3350"), HasSubstr("GB/s"),
                              HasSubstr("datasheet"), HasSubstr("burst_efficiency"), HasSubstr("\nsources\n")));
  EXPECT_EQ(Json::parse(call({"hardware", "show", "dgx-h100", "--json"}).out)["name"], "dgx-h100");
  EXPECT_EQ(call({"hardware", "show", "dgx-h1000"}).exit_code, 2);
  EXPECT_EQ(call({"hardware"}).exit_code, 2);
}

TEST_F(HardwareVerb, EveryProfileCanBeDrawn) {
  for (const Json& entry : Json::parse(call({"hardware", "list", "--json"}).out)) {
    const std::string name = entry["name"];
    const Finished plot = call({"hardware", "plot", name, "--data", name + ".curves.json"});
    EXPECT_EQ(plot.exit_code, 0) << name << plot.err;
    const std::string html = read_text(file(name + ".html"));
    EXPECT_THAT(html, AllOf(HasSubstr("<svg"), HasSubstr("<polyline"), Not(HasSubstr("nan")), Not(HasSubstr("http"))));
    const Json curves = Json::parse(read_text(file(name + ".curves.json")));
    for (const Json& chart : curves["charts"]) {
      if (chart["y_title"] != "share of dense peak") continue;
      for (const Json& curve : chart["curves"])
        for (const Json& point : curve["points"])  // times are whole picoseconds
          EXPECT_LE(point[1].get<double>(), 1 + 1e-6) << name << chart["title"];
    }
  }
}

TEST_F(HardwareVerb, PlotComparesMeasuredRows) {
  // Times chosen at the bounds of physics: 2 m n k at the dense peak of 989.4 TFLOP/s, which no model may beat.
  const double seconds = 2.0 * 8192 * 8192 * 8192 / 989.4e12;
  Json rows = Json::array();
  const Json row = {{"gpu", "NVIDIA H100-SXM5-80GB"},
                    {"dtype", "bf16"},
                    {"m", 8192},
                    {"n", 8192},
                    {"k", 8192},
                    {"batch", 1},
                    {"ms", seconds * 1e3},
                    {"source", "bound"}};
  rows.push_back(row);
  rows.push_back({{"gpu", "H100-SXM5-80GB"},
                  {"dtype", "bf16"},
                  {"impl", "x"},
                  {"mode", "fwd"},
                  {"causal", true},
                  {"head_dim", 128},
                  {"seqlen", 4096},
                  {"batch", 4},
                  {"heads", 16},
                  {"tflops", 500.0},
                  {"source", "s"}});
  rows.push_back(rows.back());
  rows.back()["kv_heads"] = 4;
  rows.push_back({{"gpu", "H100-SXM5-80GB"},
                  {"op", "gelu"},
                  {"dtype", "bf16"},
                  {"rows", 8192},
                  {"cols", 4096},
                  {"us", 60.0},
                  {"source", "s"}});
  Json other = row;
  other["gpu"] = "A100-SXM4-80GB";
  rows.push_back(other);
  other["gpu"] = "H100-PCIe";
  rows.push_back(other);
  write_text(file("rows.json"), Json({{"rows", rows}}).dump());
  write_text(file("nccl.txt"),
             "  1073741824    268435456     float   sum  4000.0 268.44 469.76 0 4000.0 268.44 469.76 0\n");
  const Finished plot = call({"hardware", "plot", "dgx-h100", "--rows", "rows.json", "nccl.txt", "--data", "-"});
  EXPECT_EQ(plot.exit_code, 0) << plot.err;
  const Json page = Json::parse(plot.out);
  std::vector<std::string> families;
  for (const Json& error : page["errors"]) {
    families.push_back(error["family"]);
    if (error["family"] == "gemm bf16") {
      EXPECT_GE(error["bias"].get<double>(), 1.0) << "faster than the peak";
      EXPECT_DOUBLE_EQ(error["median"].get<double>(), error["bias"].get<double>() - 1);
    }
  }
  EXPECT_THAT(families, testing::UnorderedElementsAre("gemm bf16", "gemm bf16", "attention fwd",
                                                      "attention fwd, grouped queries", "gelu bf16",
                                                      "all_reduce inside a node"));
  EXPECT_THAT(page["left_out"].get<std::vector<std::string>>(), Contains("2 rows of other GPUs"));
  EXPECT_THAT(read_text(file("dgx-h100.html")),
              AllOf(HasSubstr("<circle"), HasSubstr("gemm bf16"), HasSubstr("burst")));
  write_text(file("none.json"), R"({"rows": []})");
  EXPECT_EQ(call({"hardware", "plot", "dgx-h100", "--rows", "none.json"}).exit_code, 4);
  EXPECT_EQ(call({"hardware", "plot", "dgx-h100", "--rows", "absent.json"}).exit_code, 2);
}

}  // namespace
}  // namespace benchsuite

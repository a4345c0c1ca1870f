#include <CLI/CLI.hpp>

#include "engine/core/json_reader.h"
#include "suite/hardware/verb_hardware.h"

namespace benchsuite {

void define_hardware(CLI::App& app, HardwareRequests& requests) {
  HardwareRequest& hardware = requests.hardware;
  CLI::App* verb = app.add_subcommand("hardware", "Hardware profiles: list, show, plot, merge");
  verb->require_subcommand(1);
  CLI::App* list = verb->add_subcommand("list", "List the profiles");
  list->add_flag("--json", hardware.json, "As JSON");
  CLI::App* show = verb->add_subcommand("show", "Every constant with source, range, rows and fit error");
  show->add_option("name", hardware.name, "Name or file of a profile")->type_name("NAME")->required();
  show->add_flag("--json", hardware.json, "The profile as JSON");
  CLI::App* merge =
      verb->add_subcommand("merge", "A profile with the collectives that calibrate fitted on your cluster");
  merge->add_option("name", hardware.name, "Name or file of the profile to start from")->type_name("NAME")->required();
  merge->add_option("fragment", hardware.fragments, "What calibrate --out wrote (several: the last one counts)")
      ->type_name("FRAGMENT")
      ->required();
  merge->add_option("--out", hardware.out, "The new profile; its file name is its name")->type_name("FILE")->required();
  merge->footer("Example:\n  benchsuite hardware merge dgx-h100 fragment.json --out my-cluster.json");
  CLI::App* plot = verb->add_subcommand("plot", "Curves of the model as one HTML page, with measured rows if given");
  plot->add_option("name", hardware.name, "Name or file of a profile")->type_name("NAME")->required();
  plot->add_option("--out", hardware.out, "HTML file (default NAME.html here)")->type_name("FILE");
  plot->add_option("--data", hardware.data,
                   "Also the curves as JSON, for scripts/plot_hardware.py; - is standard output")
      ->type_name("FILE");
  plot->add_option("--rows", hardware.rows,
                   "Measured tables: predicted against measured by operator family, median and p90 error")
      ->type_name("FILE");
  plot->footer(R"(Rows files (the kind is told by the content; rows of other GPUs are left out and counted):
  {"rows": [...]} of, mixed as you like,
    products    gpu dtype m n k batch tflops (or ms, us) source [transpose_a transpose_b accumulate out_dtype]
    attention   gpu dtype impl mode (fwd, bwd, fwd+bwd) causal head_dim seqlen batch heads tflops source
    memory ops  gpu op dtype rows cols us source [out_dtype stores_mask]
  {"memory_bound": {"rows": [...]}}: gpu op dtype, tokens and hidden or shape, GBps
  nccl-tests output, and CSV with op,ranks,size,busbw
scripts/gpu_check operators writes the first.
Examples:
  benchsuite hardware plot dgx-h100 --rows gemm.json attention.json nccl.txt
  benchsuite hardware plot dgx-h100 --data curves.json && scripts/plot_hardware.py curves.json)");
  verb->footer("Example:\n  benchsuite hardware show dgx-h100");

  CalibrateRequest& calibrate = requests.calibrate;
  verb = app.add_subcommand("calibrate", "Fit collectives of your cluster and judge it against its profile");
  verb->add_option("file", calibrate.files, "Output of nccl-tests, any version, or CSV; - is standard input")->type_name("FILE")->required();
  // One value: FILE may follow it.
  verb->add_option("--from", calibrate.from, "nccl-tests (default) or csv (op,ranks,size,busbw[,nodes])")
      ->type_name("FORMAT")
      ->allow_extra_args(false);
  verb->add_option("--hardware", calibrate.hardware, "Profile to judge against; without one only the fit is made")
      ->type_name("NAME");
  verb->add_option("--nodes", calibrate.nodes,
                   "Nodes the test ran on (default: the header's hosts, or as few as hold it)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  verb->add_option("--ranks", calibrate.ranks, "Ranks, where the rows don't tell")
      ->type_name("N")
      ->check(CLI::Range(2, 1 << 24));
  verb->add_option("--op", calibrate.op, "Collective, where the rows don't tell (all_gather and alltoall print alike)")
      ->type_name("OP");
  verb->add_option("--out", calibrate.out, "Profile fragment with provenance, as JSON; - is standard output")
      ->type_name("FILE");
  verb->footer(
      "The last line is \"verdict: healthy\" (exit 0), \"verdict: unhealthy: SIGNATURE\" (exit 1) or \"verdict: "
      "none\"\n"
      "(exit 4: no profile, or nothing to judge).\n"
      "Example:\n  benchsuite calibrate --from nccl-tests all_reduce.log --hardware dgx-h100 --out fragment.json");
}

std::optional<int> dispatch_hardware(const CLI::App& app, const HardwareRequests& requests) {
  if (app.got_subcommand("calibrate")) return verb_calibrate(requests.calibrate);
  if (!app.got_subcommand("hardware")) return std::nullopt;
  const CLI::App* verb = app.get_subcommand("hardware");
  if (verb->got_subcommand("list")) return verb_hardware_list(requests.hardware);
  if (verb->got_subcommand("show")) return verb_hardware_show(requests.hardware);
  if (verb->got_subcommand("merge")) return verb_hardware_merge(requests.hardware);
  return verb_hardware_plot(requests.hardware);
}

}  // namespace benchsuite

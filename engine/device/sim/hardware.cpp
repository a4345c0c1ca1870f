#include "engine/device/sim/hardware.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace benchsuite {

namespace {

constexpr double kMicro = 1e-6, kGiga = 1e9, kTera = 1e12;

/// What a number must be.
enum class Range : std::uint8_t { positive, not_negative, share, share_or_zero };

bool inside(Range range, double value) {
  switch (range) {
    case Range::positive:
      return value > 0;
    case Range::not_negative:
      return value >= 0;
    case Range::share:
      return value > 0 && value <= 1;
    case Range::share_or_zero:
      return value >= 0 && value <= 1;
  }
  return false;
}

const char* words(Range range) {
  switch (range) {
    case Range::positive:
      return "above 0";
    case Range::not_negative:
      return "0 or more";
    case Range::share:
      return "above 0 and at most 1";
    case Range::share_or_zero:
      return "between 0 and 1";
  }
  return "";
}

class ProfileReader {
 public:
  ProfileReader(const Json& json, const std::string& file, std::vector<Violation>& problems)
      : json_(json), file_(file), problems_(problems) {}

  HardwareProfile read() {
    HardwareProfile p;
    ObjectReader top(json_, file_, "", problems_);
    top.required("name", p.name);
    top.required("title", p.title);
    top.required("gpu", p.gpu);
    read_sources(top);
    p.gpus_per_node = count(top, "gpus_per_node");
    p.sm_count = count(top, "sm_count");
    p.memory_bytes = static_cast<std::int64_t>(quantity(top, "memory", "GiB", 1024.0 * 1024 * 1024, Range::positive));
    p.memory_bandwidth = quantity(top, "memory_bandwidth", "GB/s", kGiga, Range::positive);
    section(top, "peak", true, [&](ObjectReader& peak) {
      for (const DType type : {DType::fp32, DType::bf16, DType::fp16, DType::fp8}) {
        const std::string key(name_of(type));
        if (peak.has(key.c_str())) p.peak_flops[type] = quantity(peak, key.c_str(), "TFLOP/s", kTera, Range::positive);
      }
      if (p.peak_flops.empty()) peak.problem("bf16", "no rate of any type is given", "give one of fp32 bf16 fp16 fp8");
    });
    section(top, "gemm", true, [&](ObjectReader& gemm) { read_gemm(gemm, p.gemm); });
    section(top, "attention", false, [&](ObjectReader& attention) { read_attention(attention, p); });
    section(top, "memory_ops", true, [&](ObjectReader& ops) { read_memory_ops(ops, p); });
    section(top, "nvlink", false, [&](ObjectReader& nvlink) { read_nvlink(nvlink, p); });
    section(top, "fabric", false, [&](ObjectReader& fabric) { read_fabric(fabric, p); });
    read_free_sites(top, p);
    top.optional("free_communication", p.free_communication);
    if (!p.free_communication && !top.has("nvlink"))
      top.problem("nvlink", "missing", "add \"nvlink\", or set \"free_communication\": true");
    top.finish();
    p.raw = json_;
    return p;
  }

 private:
  void section(ObjectReader& parent, const char* key, bool must, const std::function<void(ObjectReader&)>& body) {
    const Json* value = parent.raw(key, must);
    if (!value) return;
    ObjectReader reader(*value, file_, parent.dotted(key), problems_);
    if (!value->is_object()) return;
    body(reader);
    reader.finish();
  }

  void section_of_list(ObjectReader& parent, const char* key, const std::function<void(ObjectReader&)>& body) {
    const Json* list = parent.raw(key, true);
    if (!list) return;
    if (!list->is_array() || list->empty())
      return parent.problem(key, "must be a list with entries", "write [{...}, ...]");
    for (std::size_t i = 0; i < list->size(); ++i) {
      ObjectReader reader((*list)[i], file_, parent.dotted(key) + "[" + std::to_string(i) + "]", problems_);
      if (!(*list)[i].is_object()) continue;
      body(reader);
      reader.finish();
    }
  }

  void read_sources(ObjectReader& top) {
    const Json* sources = top.raw("sources", true);
    if (!sources) return;
    if (!sources->is_object())
      return top.problem("sources", "an object is needed here", "write {\"key\": \"origin\", ...}");
    for (const auto& [key, text] : sources->items()) {
      sources_.push_back(key);
      if (!text.is_string() || text.get_ref<const std::string&>().empty())
        problems_.push_back({file_, "sources." + key, text.dump(), "must be text", "name the public origin"});
    }
  }

  /// Where a value comes from: "source" (keys of the top-level map, comma separated) and the fit report.
  void provenance(ObjectReader& reader) {
    std::string source;
    reader.required("source", source);
    for (std::size_t start = 0; start < source.size();) {
      const std::size_t comma = std::min(source.find(", ", start), source.size());
      const std::string key = source.substr(start, comma - start);
      if (std::find(sources_.begin(), sources_.end(), key) == sources_.end())
        reader.problem("source", "\"" + key + "\" is not a key of \"sources\"", "add it to the top-level \"sources\"");
      start = comma + 2;
    }
    std::int64_t rows = 1;
    reader.optional("rows", rows);
    if (rows < 1) reader.problem("rows", "must be 1 or more", "give the number of measurements behind the value");
    std::string status = "measured", reason, note;
    reader.choice("status", status, {{"measured", "measured"}, {"proxy", "proxy"}});
    reader.optional("reason", reason);
    reader.optional("note", note);
    if (status == "proxy" && reason.empty())
      reader.problem("reason", "a proxy needs a reason", "say what stands in for what");
    section(reader, "fit_error", false, [&](ObjectReader& error) { read_errors(error); });
  }

  static void read_errors(ObjectReader& error) {
    double middle = 0, high = 0;
    error.required("median", middle);
    error.required("p90", high);
  }

  double quantity(ObjectReader& parent, const char* key, const char* unit, double scale, Range range) {
    double value = 0;
    section(parent, key, true, [&](ObjectReader& reader) {
      const std::size_t before = problems_.size();
      reader.required("value", value);
      if (problems_.size() == before && !inside(range, value))
        reader.problem("value", std::string("must be ") + words(range), "correct the value");
      std::string given;
      reader.required("unit", given);
      if (!given.empty() && given != unit)
        reader.problem("unit", "the unit must be \"" + std::string(unit) + "\"", "convert the value to that unit");
      provenance(reader);
    });
    return value * scale;
  }

  int count(ObjectReader& parent, const char* key) {
    const double value = quantity(parent, key, "count", 1, Range::positive);
    if (value != std::floor(value) || value > 1e6) {
      parent.problem(key, "must be a whole number below a million", "correct the value");
      return 1;
    }
    return static_cast<int>(value);
  }

  double number(ObjectReader& reader, const char* key, Range range) {
    double value = 0;
    const std::size_t before = problems_.size();
    reader.required(key, value);
    if (problems_.size() == before && !inside(range, value))
      reader.problem(key, std::string("must be ") + words(range), "correct the value");
    return value;
  }

  std::int64_t whole(ObjectReader& reader, const char* key) {
    std::int64_t value = 0;
    const std::size_t before = problems_.size();
    reader.required(key, value);
    if (problems_.size() == before && value < 1) reader.problem(key, "must be 1 or more", "correct the value");
    return value;
  }

  void read_gemm(ObjectReader& gemm, GemmModel& model) {
    model.floor_s = quantity(gemm, "floor", "us", kMicro, Range::not_negative);
    model.efficiency = quantity(gemm, "burst_efficiency", "share of dense peak", 1, Range::share) *
                       quantity(gemm, "sustained_over_burst", "ratio", 1, Range::share);
    model.k_ramp = quantity(gemm, "k_ramp", "elements of k", 1, Range::not_negative);
    model.memory_share = quantity(gemm, "memory_share", "share of HBM bandwidth", 1, Range::share_or_zero);
    section(gemm, "tiles", false, [&](ObjectReader& tiles) {
      provenance(tiles);
      section_of_list(tiles, "list", [&](ObjectReader& tile) {
        model.tiles.push_back({whole(tile, "m"), whole(tile, "n"), number(tile, "relative", Range::share)});
      });
    });
  }

  void read_attention(ObjectReader& attention, HardwareProfile& p) {
    attention.required("kernel", p.attention_kernel);
    std::string unit;
    attention.required("unit", unit);
    if (!unit.empty() && unit != "TFLOP/s")
      attention.problem("unit", "the unit must be \"TFLOP/s\"", "convert the points to that unit");
    provenance(attention);
    p.attention_floor_s = quantity(attention, "floor", "us", kMicro, Range::not_negative);
    section(attention, "check", false, [&](ObjectReader& check) {
      provenance(check);
      section(check, "error", true, [&](ObjectReader& error) { read_errors(error); });
    });
    section_of_list(attention, "points", [&](ObjectReader& point) {
      AttentionPoint at;
      at.head_dim = whole(point, "head_dim");
      point.required("causal", at.causal);
      at.seq = whole(point, "seq");
      at.forward_tflops = number(point, "forward", Range::positive);
      at.backward_tflops = number(point, "backward", Range::positive);
      p.attention.push_back(at);
    });
  }

  void read_memory_ops(ObjectReader& ops, HardwareProfile& p) {
    const double floor_s = quantity(ops, "floor", "us", kMicro, Range::not_negative);
    section(ops, "shares", true, [&](ObjectReader& shares) {
      const auto share = [&](const std::string& name) {
        p.memory_ops[name] = {quantity(shares, name.c_str(), "share of HBM bandwidth", 1, Range::share), floor_s};
      };
      share("default");
      for (int kind = 0; kind < kOpKinds; ++kind) {
        const std::string name(name_of(static_cast<OpKind>(kind)));
        if (!is_communication(static_cast<OpKind>(kind)) && shares.has(name.c_str())) share(name);
      }
    });
  }

  void read_nvlink(ObjectReader& nvlink, HardwareProfile& p) {
    p.nvlink_bandwidth = quantity(nvlink, "bandwidth", "GB/s", kGiga, Range::positive);
    p.collective_sm_permille =
        static_cast<int>(std::lround(1000 * quantity(nvlink, "sm_share", "share of SMs", 1, Range::share_or_zero)));
    section_of_list(nvlink, "collectives", [&](ObjectReader& entry) {
      CollectiveFit fit;
      entry.choice("op", fit.op,
                   {{"all_reduce", "all_reduce"},
                    {"all_gather", "all_gather"},
                    {"reduce_scatter", "reduce_scatter"},
                    {"send", "send"}},
                   true);
      fit.ranks = static_cast<int>(whole(entry, "ranks"));
      if (fit.ranks == 1) entry.problem("ranks", "must be 2 or more", "a collective of one rank costs nothing");
      fit.a_s = number(entry, "a", Range::not_negative) * kMicro;
      fit.busbw = number(entry, "busbw", Range::positive) * kGiga;
      fit.c_s = number(entry, "c", Range::not_negative) * kMicro;
      provenance(entry);
      p.intra_node.push_back(fit);
    });
    for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "send"}) {
      const auto is_op = [&](const CollectiveFit& fit) { return fit.op == op; };
      if (!p.intra_node.empty() && std::none_of(p.intra_node.begin(), p.intra_node.end(), is_op))
        nvlink.problem("collectives", std::string("no entry for ") + op, "add one");
    }
  }

  void read_fabric(ObjectReader& fabric, HardwareProfile& p) {
    p.nics_per_node = count(fabric, "nics_per_node");
    if (p.nics_per_node > p.gpus_per_node)
      fabric.problem("nics_per_node", "more NICs than GPUs in a node", "give at most one NIC per GPU");
    p.nic_bandwidth = quantity(fabric, "nic_bandwidth", "GB/s", kGiga, Range::positive);
    p.nic_latency_s = quantity(fabric, "send_latency", "us", kMicro, Range::not_negative);
    p.inter_node_sm_permille =
        static_cast<int>(std::lround(1000 * quantity(fabric, "sm_share", "share of SMs", 1, Range::share_or_zero)));
    section(fabric, "ring", true, [&](ObjectReader& ring) {
      provenance(ring);
      section_of_list(ring, "protocols", [&](ObjectReader& entry) {
        RingProtocol protocol;
        entry.required("name", protocol.name);
        protocol.base_s = number(entry, "base", Range::not_negative) * kMicro;
        protocol.nic_hop_s = number(entry, "nic_hop", Range::not_negative) * kMicro;
        protocol.nvlink_hop_s = number(entry, "nvlink_hop", Range::not_negative) * kMicro;
        protocol.bandwidth_share = number(entry, "bandwidth_share", Range::share);
        entry.required("all_reduce_tree", protocol.all_reduce_tree);
        p.inter_node.push_back(protocol);
      });
    });
  }

  void read_free_sites(ObjectReader& top, HardwareProfile& p) {
    const Json* list = top.raw("free_sites");
    if (!list) return;
    if (!list->is_array()) return top.problem("free_sites", "must be a list of sites", "write [\"head\", ...]");
    std::vector<std::string> names;
    for (int site = 0; site < kSites; ++site) names.emplace_back(name_of(static_cast<Site>(site)));
    for (const Json& entry : *list) {
      const std::string name = entry.is_string() ? entry.get<std::string>() : entry.dump();
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end()) {
        const std::string guess = did_you_mean(name, names);
        std::string all;
        for (const std::string& known : names) all += " " + known;
        top.problem("free_sites", "\"" + name + "\" is not a site",
                    guess.empty() ? "sites:" + all : "did you mean \"" + guess + "\"?");
        continue;
      }
      p.free_sites.push_back(static_cast<Site>(found - names.begin()));
    }
  }

  const Json& json_;
  const std::string& file_;
  std::vector<Violation>& problems_;
  std::vector<std::string> sources_;
};

}  // namespace

HardwareProfile read_hardware(const Json& json, const std::string& file, std::vector<Violation>& problems) {
  return ProfileReader(json, file, problems).read();
}

HardwareProfile load_hardware(const std::string& path) {
  std::vector<Violation> problems;
  HardwareProfile profile = read_hardware(parse_json_file(path), path, problems);
  if (!problems.empty()) throw Error(problems);
  return profile;
}

}  // namespace benchsuite

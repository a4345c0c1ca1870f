#include "engine/device/sim/hardware.h"

#include <algorithm>
#include <cmath>

#include "engine/device/sim/provenance_reader.h"

namespace benchsuite {

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr const char* kCollectives[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"};

class ProfileReader : ProvenanceReader {
 public:
  ProfileReader(const Json& json, const std::string& file, std::vector<Violation>& problems)
      : ProvenanceReader(file, problems), json_(json) {}

  HardwareProfile read() {
    HardwareProfile p;
    ObjectReader top(json_, file_, "", problems_);
    std::string base;
    top.optional("based_on", base);
    top.required("name", p.name);
    top.required("title", p.title);
    top.required("gpu", p.gpu);
    read_sources(top);
    p.gpus_per_node = count(top, "gpus_per_node");
    p.sm_count = count(top, "sm_count");
    p.memory_bytes = static_cast<std::int64_t>(quantity(top, "memory", "GiB", kGiB, Range::positive));
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
    read_time_factor(top, "slowest_gpu", p.slowest_gpu_factor);
    section(top, "host", false, [&](ObjectReader& host) {
      p.host_eager_s = quantity(host, "eager_op", "us", kMicro, Range::not_negative);
      p.host_graph_s = quantity(host, "graph_op", "us", kMicro, Range::not_negative);
      if (host.has("library_op")) p.host_library_s = quantity(host, "library_op", "us", kMicro, Range::not_negative);
    });
    read_free_sites(top, p);
    top.optional("free_communication", p.free_communication);
    read_errors(p);
    if (!p.free_communication && !top.has("nvlink"))
      top.problem("nvlink", "missing", "add \"nvlink\", or set \"free_communication\": true");
    top.finish();
    p.raw = json_;
    return p;
  }

 private:
  /// Sections are looked at for errors only: what is wrong with them is told elsewhere.
  void read_errors(HardwareProfile& p) const {
    const auto section_at = [](const Json& parent, const char* key) {
      const auto found = parent.is_object() ? parent.find(key) : parent.end();
      return found != parent.end() && found->is_object() ? *found : Json::object();
    };
    const Json attention = section_at(json_, "attention");
    p.gemm.error = model_error(section_at(json_, "gemm"));
    p.attention_error = model_error(attention);
    p.occupancy_error = model_error(section_at(attention, "occupancy"));
    p.intra_node_error = model_error(section_at(json_, "nvlink"));
    p.inter_node_error = model_error(section_at(section_at(json_, "fabric"), "ring"));
    if (const auto others = attention.find("other_kernels"); others != attention.end() && others->is_array()) {
      for (const Json& other : *others) {
        if (other.is_object() && other.contains("kernel") && other["kernel"].is_string()) {
          p.other_attention_error[other["kernel"].get<std::string>()] = model_error(other);
        }
      }
    }
  }

  void read_time_factor(ObjectReader& section, const char* key, double& factor) {
    if (section.has(key)) factor = quantity(section, key, "ratio of time", 1, Range::positive);
  }

  void read_gemm(ObjectReader& gemm, GemmModel& model) {
    if (gemm.has("source")) provenance(gemm);
    model.floor_s = quantity(gemm, "floor", "us", kMicro, Range::not_negative);
    model.efficiency = quantity(gemm, "burst_efficiency", "share of dense peak", 1, Range::share);
    model.sustained_over_burst = quantity(gemm, "sustained_over_burst", "ratio", 1, Range::share);
    if (gemm.has("k_ramp")) model.k_ramp = quantity(gemm, "k_ramp", "elements of k", 1, Range::not_negative);
    model.memory_share = quantity(gemm, "memory_share", "share of HBM bandwidth", 1, Range::share_or_zero);
    section(gemm, "tiles", false, [&](ObjectReader& tiles) {
      model.wave_share = number(tiles, "wave_share", Range::share_or_zero);
      section_of_list(tiles, "list", [&](ObjectReader& tile) {
        model.tiles.push_back({whole(tile, "m"), whole(tile, "n"), number(tile, "relative", Range::share)});
      });
    });
    section(gemm, "surface", false, [&](ObjectReader& surface) { read_surface(surface, model); });
    if (gemm.has("short_products"))
      model.short_products = quantity(gemm, "short_products", "ratio of time", 1, Range::not_negative);
    section(gemm, "alignment", false, [&](ObjectReader& alignment) {
      for (const DType type : {DType::bf16, DType::fp16}) {
        section(alignment, std::string(name_of(type)).c_str(), false, [&](ObjectReader& rates) {
          AlignmentRates& of_type = model.alignment[type];
          if (rates.has("narrow")) of_type.narrow = quantity(rates, "narrow", "ratio", 1, Range::share);
          if (rates.has("odd")) of_type.odd = quantity(rates, "odd", "ratio", 1, Range::share);
        });
      }
    });
    section(gemm, "long_kernel", false, [&](ObjectReader& slow) { model.long_kernel = curve(slow, "log10_s"); });
    if (gemm.has("accumulate_exposed"))
      model.accumulate_exposed =
          quantity(gemm, "accumulate_exposed", "share of extra traffic", 1, Range::share_or_zero);
    if (gemm.has("fp8_over_bf16")) {
      model.fp8_over_bf16 = quantity(gemm, "fp8_over_bf16", "ratio", 1, Range::positive);
      model.fp8_cast_share = quantity(gemm, "fp8_cast_share", "share of HBM bandwidth", 1, Range::share);
    }
  }

  void read_surface(ObjectReader& surface, GemmModel& model) {
    model.surface_waves = ascending(surface, "log2_waves");
    model.surface_k = ascending(surface, "log2_k");
    const Json* table = surface.raw("slowdown", true);
    if (!table) return;
    bool good = table->is_array() && table->size() == model.surface_k.size();
    for (std::size_t k = 0; good && k < table->size(); ++k) {
      const Json& line = (*table)[k];
      good = line.is_array() && line.size() == model.surface_waves.size();
      for (std::size_t w = 0; good && w < line.size(); ++w) {
        good = line[w].is_number();
        if (good) model.surface.push_back(line[w].get<double>());
      }
    }
    if (!good) surface.problem("slowdown", "needs a line for each k with a number for each wave count", "complete it");
  }

  AttentionRate::Pass read_pass(ObjectReader& parent, const char* key) {
    AttentionRate::Pass pass;
    section(parent, key, true, [&](ObjectReader& reader) {
      pass.rate = number(reader, "rate", Range::positive) * kTera;
      pass.ramp = number(reader, "ramp", Range::not_negative);
      pass.power = number(reader, "power", Range::positive);
    });
    return pass;
  }

  std::vector<AttentionRate> read_rates(ObjectReader& attention) {
    std::vector<AttentionRate> rates;
    section_of_list(attention, "rates", [&](ObjectReader& entry) {
      AttentionRate rate;
      rate.head_dim = whole(entry, "head_dim");
      entry.required("causal", rate.causal);
      rate.forward = read_pass(entry, "forward");
      rate.backward = read_pass(entry, "backward");
      rates.push_back(rate);
    });
    return rates;
  }

  void read_attention(ObjectReader& attention, HardwareProfile& p) {
    attention.required("kernel", p.attention_kernel);
    std::string unit;
    attention.required("unit", unit);
    if (!unit.empty() && unit != "TFLOP/s")
      attention.problem("unit", "the unit must be \"TFLOP/s\"", "convert the rates to that unit");
    provenance(attention);
    p.attention_floor_s = quantity(attention, "floor", "us", kMicro, Range::not_negative);
    read_time_factor(attention, "time_factor", p.attention_time_factor);
    p.attention = read_rates(attention);
    if (attention.has("other_kernels")) {
      section_of_list(attention, "other_kernels", [&](ObjectReader& other) {
        FusedAttention kernel{};
        other.choice("kernel", kernel,
                     {{"flash-attention-1", FusedAttention::flash_1},
                      {"flash-attention-2", FusedAttention::flash_2},
                      {"flash-attention-triton", FusedAttention::triton}},
                     true);
        provenance(other);
        bool usual = false;
        other.optional("usual_time_factor", usual);
        if (usual) p.usual_attention.insert(std::string(name_of(kernel)));
        p.other_attention[std::string(name_of(kernel))] = read_rates(other);
      });
    }
    section(attention, "kernel_time_factors", false, [&](ObjectReader& factors) {
      for (const auto& [kernel, rates] : p.other_attention) {
        double factor = 1;
        read_time_factor(factors, kernel.c_str(), factor);
        p.kernel_time_factor[kernel] = factor;
      }
    });
    section(attention, "occupancy", true, [&](ObjectReader& occupancy) {
      provenance(occupancy);
      p.attention_block = whole(occupancy, "block_rows");
      p.attention_wave_share = number(occupancy, "wave_share", Range::share_or_zero);
      p.attention_occupancy = curve(occupancy, "log2_blocks_per_sm");
    });
  }

  void read_memory_ops(ObjectReader& ops, HardwareProfile& p) {
    const double floor_s = quantity(ops, "floor", "us", kMicro, Range::not_negative);
    section(ops, "shares", true, [&](ObjectReader& shares) {
      const auto share = [&](const std::string& name) {
        p.memory_ops[name] = {quantity(shares, name.c_str(), "share of HBM bandwidth", 1, Range::share), floor_s};
      };
      share("default");
      if (shares.has("broadcast")) share("broadcast");
      for (int kind = 0; kind < kOpKinds; ++kind) {
        const std::string name(name_of(static_cast<OpKind>(kind)));
        if (!is_communication(static_cast<OpKind>(kind)) && shares.has(name.c_str())) share(name);
      }
    });
  }

  void read_nvlink(ObjectReader& nvlink, HardwareProfile& p) {
    if (nvlink.has("source")) provenance(nvlink);
    std::string tier;
    nvlink.optional("tier", tier);
    p.nvlink_bandwidth = quantity(nvlink, "bandwidth", "GB/s", kGiga, Range::positive);
    read_time_factor(nvlink, "time_factor", p.intra_node_time_factor);
    p.collective_sm_permille =
        static_cast<int>(std::lround(1000 * quantity(nvlink, "sm_share", "share of SMs", 1, Range::share_or_zero)));
    section_of_list(nvlink, "collectives", [&](ObjectReader& entry) {
      CollectiveFit fit;
      entry.choice("op", fit.op,
                   {{kCollectives[0], kCollectives[0]},
                    {kCollectives[1], kCollectives[1]},
                    {kCollectives[2], kCollectives[2]},
                    {kCollectives[3], kCollectives[3]},
                    {kCollectives[4], kCollectives[4]}},
                   true);
      fit.ranks = static_cast<int>(whole(entry, "ranks"));
      if (fit.ranks == 1) entry.problem("ranks", "must be 2 or more", "a collective of one rank costs nothing");
      entry.choice("algorithm", fit.algorithm, {{"ring", "ring"}, {"nvls", "nvls"}});
      fit.a_s = number(entry, "a", Range::not_negative) * kMicro;
      fit.busbw = number(entry, "busbw", Range::positive) * kGiga;
      fit.c_s = number(entry, "c", Range::not_negative) * kMicro;
      provenance(entry);
      p.intra_node.push_back(fit);
    });
    section(nvlink, "ramps", false, [&](ObjectReader& ramps) {
      for (const char* op : kCollectives)
        section(ramps, op, false,
                [&](ObjectReader& ramp) {
                  const bool per_rank = ramp.raw("log2_bytes_per_rank") != nullptr;
                  p.collective_ramps[op] = {curve(ramp, per_rank ? "log2_bytes_per_rank" : "log2_bytes"), per_rank};
                });
    });
    for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "send"}) {
      const auto is_op = [&](const CollectiveFit& fit) { return fit.op == op; };
      if (!p.intra_node.empty() && std::none_of(p.intra_node.begin(), p.intra_node.end(), is_op))
        nvlink.problem("collectives", std::string("no entry for ") + op, "add one");
    }
  }

  void read_fabric(ObjectReader& fabric, HardwareProfile& p) {
    std::string tier;
    fabric.optional("tier", tier);
    p.nics_per_node = count(fabric, "nics_per_node");
    if (p.nics_per_node > p.gpus_per_node)
      fabric.problem("nics_per_node", "more NICs than GPUs in a node", "give at most one NIC per GPU");
    p.nic_bandwidth = quantity(fabric, "nic_bandwidth", "GB/s", kGiga, Range::positive);
    p.nic_latency_s = quantity(fabric, "send_latency", "us", kMicro, Range::not_negative);
    read_time_factor(fabric, "send_wire_factor", p.send_wire_factor);
    read_time_factor(fabric, "time_factor", p.inter_node_time_factor);
    p.inter_node_sm_permille =
        static_cast<int>(std::lround(1000 * quantity(fabric, "sm_share", "share of SMs", 1, Range::share_or_zero)));
    section(fabric, "ring", true, [&](ObjectReader& ring) {
      provenance(ring);
      ring.optional("pipeline_fill", p.pipeline_fill);
      section_of_list(ring, "protocols", [&](ObjectReader& entry) {
        RingProtocol protocol;
        entry.required("name", protocol.name);
        protocol.base_s = number(entry, "base", Range::not_negative) * kMicro;
        protocol.nic_hop_s = number(entry, "nic_hop", Range::not_negative) * kMicro;
        protocol.nvlink_hop_s = number(entry, "nvlink_hop", Range::not_negative) * kMicro;
        protocol.bandwidth_share = number(entry, "bandwidth_share", Range::share);
        entry.required("all_reduce_tree", protocol.all_reduce_tree);
        entry.optional("two_node_tree", protocol.two_node_tree);
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
};

}  // namespace

double CollectiveRamp::at(double size, int ranks) const { return slowdown.at(std::log2(per_rank ? size / ranks : size)); }

double Curve::at(double value) const {
  if (x.empty()) return 0;
  if (value <= x.front()) return y.front();
  if (value >= x.back()) return y.back();
  std::size_t i = 1;
  while (x[i] < value) ++i;
  return y[i - 1] + (y[i] - y[i - 1]) * (value - x[i - 1]) / (x[i] - x[i - 1]);
}

double AttentionRate::Pass::at(std::int64_t seq) const {
  return rate / (1 + std::pow(ramp / static_cast<double>(seq), power));
}

Json resolve_profile(const Json& json, const std::string& file, std::vector<Violation>& problems) {
  if (!json.is_object() || !json.contains("based_on")) return json;
  const Json& name = json["based_on"];
  if (!name.is_string()) {
    problems.push_back({file, "based_on", name.dump(), "must be the name of a profile", "name one of this folder"});
    return json;
  }
  const std::size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : file.substr(0, slash + 1);
  Json whole;
  try {
    whole = parse_json_file(folder + name.get<std::string>() + ".json");
  } catch (const Error&) {
    problems.push_back({file, "based_on", name.dump(), "can't be read", "name a profile of the same folder"});
    return json;
  }
  if (whole.contains("based_on")) {
    problems.push_back({file, "based_on", name.dump(), "is itself based on another profile", "name that one"});
    return json;
  }
  for (const auto& [key, value] : json.items()) {
    if (key == "sources" && value.is_object() && whole.contains(key)) {
      for (const auto& [source, text] : value.items()) whole[key][source] = text;
    } else {
      whole[key] = value;
    }
  }
  return whole;
}

HardwareProfile read_hardware(const Json& json, const std::string& file, std::vector<Violation>& problems) {
  const Json whole = resolve_profile(json, file, problems);
  return ProfileReader(whole, file, problems).read();
}

HardwareProfile load_hardware(const std::string& path) {
  std::vector<Violation> problems;
  HardwareProfile profile = read_hardware(parse_json_file(path), path, problems);
  if (!problems.empty()) throw Error(problems);
  return profile;
}

}  // namespace benchsuite

#include "tests/suite/measure/layouts.h"

namespace benchsuite {

HardwareProfile profile(const std::string& name) {
  return load_hardware(std::string(BENCHSUITE_SOURCE_DIR) + "/cases/hardware/" + name + ".json");
}

TrainConfig tiny() {
  TrainConfig config;
  config.model = {.name = "tiny", .layers = 8, .hidden = 64, .ffn_hidden = 256, .heads = 4, .kv_heads = 4, .seq = 32,
                  .vocab = 1024};
  config.layout.attention = AttentionKernel::unfused;
  config.layout.micro_batch = 2;
  return config;
}

TrainConfig gpt_13b() {
  TrainConfig config = tiny();
  config.model = {.name = "13b", .layers = 40, .hidden = 5120, .ffn_hidden = 20480, .heads = 40, .kv_heads = 40,
                  .seq = 2048, .vocab = 51200};
  config.layout.tp = config.layout.pp = config.layout.micro_batch = 4;
  config.layout.sequence_parallel = true;
  config.layout.global_batch = 32;
  return config;
}

std::vector<TrainConfig> layouts_of_some_software() {
  using Feature = void (*)(Stack&);
  const Feature features[] = {
      [](Stack& s) { s.fused_norm = false; },
      [](Stack& s) { s.fused_swiglu = s.fused_rope = false; },
      [](Stack& s) { s.strided_attention = false; },
      [](Stack& s) { s.framework_loss = true; },
      [](Stack& s) { s.recomputes_head = true; },
      [](Stack& s) { s.framework_loss = s.recomputes_head = true; },
      [](Stack& s) { s.keeps_stage_outputs = true; },
      [](Stack& s) { s.separate_gate_linear = true; },
      [](Stack& s) { s.keeps_gathered_inputs = true; },
      [](Stack& s) { s.all_reduces_in_fp32 = true, s.gradient_dtype = DType::bf16; },
      [](Stack& s) { s.casts_added_gradients = true, s.fused_gradient_accumulation = false, s.gradient_dtype = DType::fp32; },
      [](Stack& s) {
        s.fused_norm = s.fused_swiglu = s.strided_attention = false;
        s.framework_loss = s.separate_gate_linear = s.keeps_gathered_inputs = s.all_reduces_in_fp32 = true;
        s.recomputes_head = s.keeps_stage_outputs = true;
      }};
  const RecomputeConfig recomputes[] = {
      {},
      {.granularity = RecomputeGranularity::selective},
      {.granularity = RecomputeGranularity::selective, .modules = {RecomputeModule::layernorm}},
      {.granularity = RecomputeGranularity::selective, .modules = {RecomputeModule::mlp}},
      {.granularity = RecomputeGranularity::full}};
  std::vector<TrainConfig> list;
  TrainConfig config = tiny();
  config.model.family = ModelFamily::llama;
  config.model.hidden = 128;
  config.layout.tp = config.layout.pp = config.layout.dp = 2;
  config.layout.attention = AttentionKernel::flash;
  config.layout.zero_stage = 1;
  config.layout.layer_split.stages = {5, 3};
  config.layout.global_batch = config.layout.micro_batch * 16;
  for (const bool sequence_parallel : {false, true}) {
    for (const Feature feature : features) {
      for (const RecomputeConfig& recompute : recomputes) {
        TrainConfig other = config;
        other.layout.sequence_parallel = sequence_parallel;
        other.layout.recompute = recompute;
        feature(other.stack);
        if (validate(other, "", Wanted::times).empty()) list.push_back(other);
      }
    }
  }
  for (const std::int64_t micro_batch : {1, 2}) {
    for (const AttentionKernel attention : {AttentionKernel::flash, AttentionKernel::unfused}) {
      TrainConfig other = config;
      other.stack.fused_rope = other.stack.strided_attention = false;
      other.layout.attention = attention;
      other.layout.micro_batch = micro_batch;
      other.layout.global_batch = micro_batch * 16;
      list.push_back(other);
    }
  }
  config.layout.sequence_parallel = true;
  config.layout.cp = 2;
  for (const int dp : {1, 2}) {
    for (const int stage : {0, 1}) {
      config.layout.dp = dp;
      config.layout.zero_stage = stage;
      config.layout.global_batch = config.layout.micro_batch * dp * 4;
      list.push_back(config);
    }
  }
  return list;
}

std::vector<TrainConfig> layouts() {
  std::vector<TrainConfig> list;
  for (const bool sequence_parallel : {false, true}) {
    for (const bool flash : {false, true}) {
      for (const RecomputeConfig& recompute :
           {RecomputeConfig{}, RecomputeConfig{.granularity = RecomputeGranularity::selective},
            RecomputeConfig{.granularity = RecomputeGranularity::selective,
                            .modules = {RecomputeModule::layernorm, RecomputeModule::mlp}},
            RecomputeConfig{.granularity = RecomputeGranularity::full},
            RecomputeConfig{.granularity = RecomputeGranularity::full, .num_layers = 2},
            RecomputeConfig{.granularity = RecomputeGranularity::full, .method = RecomputeMethod::block}}) {
        for (const int shape : {0, 1, 2, 3}) {
          TrainConfig config = tiny();
          Layout& layout = config.layout;
          layout.tp = shape == 3 ? 4 : 2;
          layout.sequence_parallel = sequence_parallel;
          layout.recompute = recompute;
          layout.attention = flash ? AttentionKernel::flash : AttentionKernel::unfused;
          layout.pp = shape == 0 ? 1 : shape == 3 ? 4 : 2;
          layout.dp = shape == 1 ? 2 : 1;
          layout.vpp = shape == 2 ? 2 : 1;
          layout.schedule = shape == 2 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
          layout.global_batch = layout.micro_batch * layout.dp * 8;
          list.push_back(config);
        }
      }
    }
  }
  for (const TrainConfig& config : layouts_of_some_software()) list.push_back(config);
  return list;
}

std::vector<TrainConfig> sharded_layouts() {
  std::vector<TrainConfig> list;
  for (const ModelFamily family : {ModelFamily::gpt, ModelFamily::llama}) {
    for (const int stage : {1, 2, 3}) {
      for (const std::int64_t threshold : {0, 100, 100'000}) {
        TrainConfig config = tiny();
        config.model.family = family;
        config.model.hidden = 96, config.model.heads = 6, config.model.kv_heads = family == ModelFamily::llama ? 2 : 6;
        config.model.ffn_hidden = 200;
        config.layout.tp = config.layout.dp = config.layout.pp = 2;
        config.layout.zero_stage = stage;
        config.layout.global_batch = config.layout.micro_batch * config.layout.dp * 4;
        config.stack.sharded_parameters.persistence_threshold = threshold;
        list.push_back(config);
        if (family == ModelFamily::gpt) continue;
        config.layout.cp = 2;
        config.layout.attention = AttentionKernel::flash;
        list.push_back(config);
      }
    }
  }
  return list;
}

}  // namespace benchsuite

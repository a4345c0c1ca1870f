#include "suite/train/training_file.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace benchsuite {

TrainingPlan read_training_file(const Json& json, const std::string& file, const DataRoot& root, std::vector<Violation>& problems) {
  const LoadPart load = [&](const std::string& part, const std::string& name, std::vector<Violation>& found)
      -> std::optional<std::pair<Json, std::string>> {
    const std::string path = root.locate(part == "model" ? DataKind::model : DataKind::stack, name, file, part, found);
    if (path.empty()) return std::nullopt;
    return std::pair{parse_json_file(path), root.shorten(path)};
  };
  return read_training(json, file, load, problems);
}

std::vector<std::string> training_files(const DataRoot& root) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  std::error_code failure;
  for (fs::directory_iterator entry(root.folder(DataKind::cases) + "/train", failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (entry->path().extension() == ".json") files.push_back(entry->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TrainingPlan load_training_file(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    throw Error({Violation{"command line", "--config", file, "there is no such file", "check the path"}});
  }
  const Json json = parse_json_file(file);
  std::vector<Violation> problems;
  TrainingPlan plan = read_training_file(json, file, DataRoot::find(), problems);
  if (!problems.empty()) throw Error(std::move(problems));
  return plan;
}

}  // namespace benchsuite

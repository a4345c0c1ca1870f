#include "engine/train/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "engine/core/error.h"
#include "engine/core/fnv1a.h"

namespace benchsuite {

namespace fs = std::filesystem;

namespace {

constexpr int kManifestVersion = 1;
constexpr const char* kManifest = "manifest.json";
constexpr const char* kLatest = "latest";

[[noreturn]] void refuse_write(const std::string& path, int error) {
  throw Error(Error::Kind::io, fmt::format("{}: the checkpoint can't be written: {}; earlier checkpoints are untouched; free "
                                           "space there or set checkpoint.dir to another folder",
                                           path, std::strerror(error)));
}

[[noreturn]] void refuse_read(const std::string& path, const std::string& what) {
  throw Error(Error::Kind::io, fmt::format("{}: {}; nothing was changed; resume from another checkpoint (--resume DIR/step_N) "
                                           "or start anew in another checkpoint.dir",
                                           path, what));
}

/// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : number_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  /// Some file systems report a full disk only here.
  int close() { return ::close(std::exchange(number_, -1)); }

 private:
  int number_;
};

void write_all(Descriptor& file, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse_write(path, written == 0 ? ENOSPC : errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void sync_folder(const std::string& path) {
  Descriptor folder(path, O_RDONLY | O_DIRECTORY);
  if (folder.number() < 0 || ::fsync(folder.number()) != 0) refuse_write(path, errno);
}

void write_synced(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.number() < 0) refuse_write(path, errno);
  for (const auto part : parts) write_all(file, part, path);
  if (::fsync(file.number()) != 0 || file.close() != 0) refuse_write(path, errno);
}

void write_text(const std::string& path, const std::string& text) {
  const std::span<const std::byte> bytes{reinterpret_cast<const std::byte*>(text.data()), text.size()};
  write_synced(path, {&bytes, 1});
}

void rename_synced(const std::string& from, const std::string& to, const std::string& dir) {
  if (::rename(from.c_str(), to.c_str()) != 0) refuse_write(to, errno);
  sync_folder(dir);
}

std::string name_of_step(std::int64_t step) { return fmt::format("step_{:010d}", step); }

/// Takes a checkpoint away so that it is never seen half-removed.
void discard(const std::string& dir, const std::string& name) {
  const std::string from = dir + "/" + name, to = from + ".old.tmp";
  std::error_code ignored;
  fs::remove_all(to, ignored);
  if (::rename(from.c_str(), to.c_str()) != 0) refuse_write(from, errno);
  fs::remove_all(to, ignored);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

std::string hex(std::uint64_t hash) { return fmt::format("fnv1a64:{:016x}", hash); }

std::uint64_t from_hex(const Json& value) {
  const std::string text = value.get<std::string>();
  if (!text.starts_with("fnv1a64:")) throw std::invalid_argument("not a checksum");
  return std::stoull(text.substr(8), nullptr, 16);
}

std::vector<std::string> complete_checkpoints(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator entry(dir, failure), end; !failure && entry != end; entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("step_") && !name.ends_with(".tmp")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

CheckpointLock::CheckpointLock(const std::string& dir) {
  constexpr const char* kOtherFolder = "check its permissions, or set checkpoint.dir to another folder";
  std::error_code failure;
  fs::create_directories(dir, failure);
  if (failure) throw Error(Error::Kind::io, fmt::format("{}: the folder can't be made: {}; {}", dir, failure.message(), kOtherFolder));
  const std::string path = dir + "/.lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw Error(Error::Kind::io, fmt::format("{}: can't be opened: {}; {}", path, std::strerror(errno), kOtherFolder));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(std::exchange(descriptor_, -1));
  throw Error({Violation{"", "checkpoint.dir", dir, "another run is writing its checkpoints there",
                         "wait for it, or choose another folder"}});
}

CheckpointLock::~CheckpointLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

CheckpointSave::CheckpointSave(const std::string& dir, std::int64_t step) : dir_(dir), name_(name_of_step(step)) {
  const std::string temporary = dir_ + "/" + name_ + ".tmp";
  std::error_code failure;
  fs::remove_all(temporary, failure);
  if (::mkdir(temporary.c_str(), 0755) != 0) refuse_write(temporary, errno);
}

CheckpointSave::~CheckpointSave() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(dir_ + "/" + name_ + ".tmp", ignored);
}

void CheckpointSave::commit(const CheckpointManifest& manifest, std::int64_t keep) {
  const std::string temporary = dir_ + "/" + name_ + ".tmp", final = dir_ + "/" + name_;
  Json files = Json::array();
  for (std::size_t rank = 0; rank < manifest.files.size(); ++rank) {
    const CheckpointFile& file = manifest.files[rank];
    files.push_back({{"name", file.name},
                     {"bytes", file.bytes},
                     {"checksum", hex(file.checksum)},
                     {"plan", hex(manifest.plans[rank])}});
  }
  Json json = {{"format", "benchsuite checkpoint"},
               {"version", kManifestVersion},
               {"step", manifest.step},
               {"identity", manifest.identity},
               {"files", files}};
  json["checksum"] = hex(fnv1a64(json.dump()));
  write_text(temporary + "/" + kManifest, json.dump(2) + "\n");
  sync_folder(temporary);
  // A whole checkpoint of this step that `latest` never came to name: this one takes its place.
  std::error_code ignored;
  if (fs::exists(final, ignored)) discard(dir_, name_);
  rename_synced(temporary, final, dir_);
  committed_ = true;
  write_text(dir_ + "/" + kLatest + ".tmp", name_ + "\n");
  rename_synced(dir_ + "/" + kLatest + ".tmp", dir_ + "/" + kLatest, dir_);
  std::vector<std::string> names = complete_checkpoints(dir_);
  std::erase(names, name_);
  const auto stay = static_cast<std::size_t>(keep - 1);
  for (std::size_t i = 0; names.size() > stay && i < names.size() - stay; ++i) discard(dir_, names[i]);
}

std::string part_name(int rank) { return fmt::format("rank_{:04d}.bin", rank); }

std::string checkpoint_part(const std::string& dir, std::int64_t step, int rank) {
  return dir + "/" + name_of_step(step) + ".tmp/" + part_name(rank);
}

CheckpointFile write_checkpoint_part(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  CheckpointFile file{fs::path(path).filename().string(), 0, kFnv1aStart};
  for (const auto part : parts) {
    file.bytes += part.size();
    file.checksum = fnv1a64(part, file.checksum);
  }
  write_synced(path, parts);
  return file;
}

void read_checkpoint_part(const std::string& folder, const CheckpointFile& file,
                          std::span<const std::span<std::byte>> parts) {
  const std::string path = folder + "/" + file.name;
  std::uint64_t wanted = 0;
  for (const auto part : parts) wanted += part.size();
  if (wanted != file.bytes) {
    refuse_read(path, fmt::format("holds {} bytes where this build keeps {}", file.bytes, wanted));
  }
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) refuse_read(path, "is missing");
  const auto size = static_cast<std::uint64_t>(stream.tellg());
  if (size != file.bytes) {
    refuse_read(path, fmt::format("is {}: {} bytes instead of {}", size < file.bytes ? "truncated" : "corrupt", size, file.bytes));
  }
  std::vector<std::byte> bytes(size);
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (!stream) refuse_read(path, "can't be read");
  if (const std::uint64_t hash = fnv1a64(bytes); hash != file.checksum) {
    refuse_read(path, fmt::format("is corrupt: checksum {} instead of {}", hex(hash), hex(file.checksum)));
  }
  std::size_t at = 0;
  for (const auto part : parts) {
    std::memcpy(part.data(), bytes.data() + at, part.size());
    at += part.size();
  }
}

std::string latest_checkpoint(const std::string& dir) {
  std::error_code ignored;
  if (fs::exists(dir + "/" + kManifest, ignored)) return dir;
  const std::string pointer = dir + "/" + kLatest;
  if (!fs::exists(pointer, ignored)) {  // killed before it was first written, or removed
    const std::vector<std::string> names = complete_checkpoints(dir);
    return names.empty() ? "" : dir + "/" + names.back();
  }
  std::string name = read_text(pointer);
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
  const bool sane = name.starts_with("step_") && name.find('/') == std::string::npos;
  if (!sane || !fs::is_directory(dir + "/" + name, ignored)) {
    refuse_read(pointer, fmt::format("is corrupt: it names \"{}\", which is no checkpoint of this folder", name));
  }
  return dir + "/" + name;
}

CheckpointManifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifest;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) refuse_read(path, "is missing");
  Json json = Json::parse(read_text(path), nullptr, false);
  if (json.is_discarded() || !json.is_object()) refuse_read(path, "is corrupt: no JSON object");
  CheckpointManifest manifest;
  try {
    const std::uint64_t claimed = from_hex(json.at("checksum"));
    json.erase("checksum");
    if (fnv1a64(json.dump()) != claimed) refuse_read(path, "is corrupt: its checksum is wrong");
    if (json.at("version") != kManifestVersion) {
      refuse_read(path, fmt::format("has version {}, and this build reads {}", json.at("version").dump(), kManifestVersion));
    }
    manifest.step = json.at("step").get<std::int64_t>();
    manifest.identity = json.at("identity");
    for (const Json& file : json.at("files")) {
      manifest.files.push_back({file.at("name").get<std::string>(), file.at("bytes").get<std::uint64_t>(),
                                from_hex(file.at("checksum"))});
      manifest.plans.push_back(from_hex(file.at("plan")));
    }
  } catch (const nlohmann::json::exception&) {
    refuse_read(path, "is corrupt: it lacks entries of a manifest");
  } catch (const std::logic_error&) {
    refuse_read(path, "is corrupt: a checksum in it is none");
  }
  return manifest;
}

void remove_leftovers(const std::string& dir) {
  std::error_code failure, ignored;
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator entry(dir, failure), end; !failure && entry != end; entry.increment(failure)) {
    if (entry->path().extension() == ".tmp") leftovers.push_back(entry->path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, ignored);
}

}  // namespace benchsuite

#include "suite/results/run_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

namespace benchsuite {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const std::string& path, int error, const std::string& remedy) {
  throw Error(Error::Kind::io, path + ": can't be written: " + std::strerror(error) + "; " + remedy);
}

/// `setting` is what names the path.
std::string remedy(std::string_view setting) { return "free space there or choose another " + std::string(setting); }

void write_all(int descriptor, const std::string& text, const std::string& path, std::string_view setting) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(descriptor, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse(path, written == 0 ? ENOSPC : errno, remedy(setting));
    done += static_cast<std::size_t>(written);
  }
}

/// A file on its way: written beside its place, or straight into a device or a pipe, which can't be replaced.
class NewFile {
 public:
  NewFile(const std::string& given, const SharedText& text, std::string_view setting)
      : path_(given), remedy_(remedy(setting)) {
    std::error_code unresolved;
    const fs::file_status status = fs::status(given, unresolved);
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      descriptor_ = ::open(given.c_str(), O_WRONLY | O_CLOEXEC);
    } else {
      // A link keeps pointing where it did: what it points at is replaced.
      const fs::path resolved = fs::weakly_canonical(given, unresolved);
      if (!unresolved && !resolved.empty()) path_ = resolved.string();
      temporary_ = path_ + ".tmp";
      descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    }
    try {
      if (descriptor_ < 0) refuse(path_, errno, remedy_);
      for (const SharedText::Piece& piece : text.pieces()) write_all(descriptor_, *piece, path_, setting);
    } catch (...) {
      drop();
      throw;
    }
  }
  ~NewFile() { drop(); }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// On disk before it has its name, so that a machine that dies leaves no empty result. Some file systems report a full
  /// disk only now.
  void flush() {
    const bool flushed = temporary_.empty() || ::fsync(descriptor_) == 0 || errno == EINVAL || errno == EROFS;
    const int error = errno;
    if (::close(std::exchange(descriptor_, -1)) != 0) refuse(path_, errno, remedy_);
    if (!flushed) refuse(path_, error, remedy_);
  }

  void take_name() {
    if (!temporary_.empty() && ::rename(temporary_.c_str(), path_.c_str()) != 0) refuse(path_, errno, remedy_);
    temporary_.clear();
  }

 private:
  void drop() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  std::string path_, remedy_;
  std::string temporary_;  // empty: there is none any more, or never was
  int descriptor_ = -1;
};

std::string format_utc(std::int64_t unix_seconds, const char* format) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char buffer[32];
  const std::size_t length = std::strftime(buffer, sizeof buffer, format, &parts);
  return std::string(buffer, length);
}

}  // namespace

void write_files(const Files& files, std::string_view setting) {
  std::deque<NewFile> written;
  for (const auto& [path, text] : files) written.emplace_back(path, text, setting);
  for (NewFile& file : written) file.flush();
  for (NewFile& file : written) file.take_name();
}

void point_link(const std::string& link, const std::string& target) {
  const std::string temporary = fmt::format("{}.{}.tmp", link, ::getpid());
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0) refuse(link, errno, remedy("--out"));
  if (::rename(temporary.c_str(), link.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    refuse(link, error, remedy("--out"));
  }
}

namespace {

bool ends_unfinished(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  char last = '\n';
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  const bool read = size > 0 && ::pread(descriptor, &last, 1, size - 1) == 1;
  ::close(descriptor);
  return read && last != '\n';
}

}  // namespace

EventLog::EventLog(const std::string& path, std::string_view setting) : path_(path), setting_(setting) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) refuse(path, errno, "check its permissions or choose another " + setting_);
  if (ends_unfinished(path)) write_all(descriptor_, "\n", path_, setting_);
}

EventLog::~EventLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

EventLog::EventLog(EventLog&& other) noexcept
    : path_(std::move(other.path_)), setting_(std::move(other.setting_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

EventLog& EventLog::operator=(EventLog&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(setting_, other.setting_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void EventLog::append(const Json& event) {
  if (descriptor_ < 0) return;
  write_all(descriptor_, event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", path_, setting_);
}

namespace {

[[noreturn]] void refuse_folder(const std::string& path, const std::string& problem, const std::string& remedy) {
  throw Error({Violation{"command line", "--out", path, problem, remedy}});
}

void write_all_of(const std::string& folder, Files files) {
  for (auto& [name, text] : files) name = folder + "/" + name;
  try {
    write_files(files);
  } catch (const Error& error) {
    refuse_folder(folder, error.what(), "choose a folder you may write to");
  }
}

}  // namespace

ResultsFolder::ResultsFolder(const std::string& requested, const std::string& run_id, const Files& first)
    : path_(requested.empty() ? "results/" + run_id : requested) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  std::error_code failure;
  if (fs::exists(path_, failure) && !(fs::is_directory(path_, failure) && fs::is_empty(path_, failure))) {
    if (!fs::is_directory(path_, failure)) refuse_folder(path_, "it is a file", "choose a folder");
    for (const char* name : {"result.json", "events.jsonl", "request.json"}) {
      if (!fs::exists(file(name))) continue;
      refuse_folder(path_, "the folder already holds a run, and results are never overwritten",
                    "choose a new folder, or finish that run with --resume");
    }
    write_all_of(path_, first);
  } else {
    const std::string temporary = fmt::format("{}.{}.starting", path_, ::getpid());
    fs::create_directories(temporary, failure);
    if (failure)
      refuse_folder(path_, "the folder can't be made: " + failure.message(), "choose a folder you may write to");
    write_all_of(temporary, first);
    if (::rename(temporary.c_str(), path_.c_str()) != 0) {
      const std::string reason = std::strerror(errno);
      fs::remove_all(temporary, failure);
      refuse_folder(path_, "the folder can't be made: " + reason, "choose a folder you may write to");
    }
  }
  try {
    events_ = EventLog(file("events.jsonl"));
  } catch (const Error& error) {
    refuse_folder(path_, error.what(), "");
  }
  if (requested.empty()) point_link("results/latest", run_id);
}

ResultsFolder ResultsFolder::open(const std::string& path) {
  ResultsFolder folder;
  folder.path_ = path;
  while (folder.path_.size() > 1 && folder.path_.ends_with('/')) folder.path_.pop_back();
  folder.events_ = EventLog(folder.file("events.jsonl"));
  return folder;
}

std::string compact_utc(std::int64_t unix_seconds) { return format_utc(unix_seconds, "%Y%m%dT%H%M%SZ"); }
std::string iso_utc(std::int64_t unix_seconds) { return format_utc(unix_seconds, "%Y-%m-%dT%H:%M:%SZ"); }

std::string make_run_id(std::int64_t unix_seconds) {
  return fmt::format("{}-{:04x}", compact_utc(unix_seconds), std::random_device{}() & 0xFFFFu);
}

}  // namespace benchsuite

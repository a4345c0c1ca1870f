#include "suite/results.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
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

constexpr const char* kRemedy = "free space there or choose another --out";

void write_all(int descriptor, const std::string& text, const std::string& path) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(descriptor, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse(path, written == 0 ? ENOSPC : errno, kRemedy);
    done += static_cast<std::size_t>(written);
  }
}

std::string format_utc(std::int64_t unix_seconds, const char* format) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char buffer[32];
  const std::size_t length = std::strftime(buffer, sizeof buffer, format, &parts);
  return std::string(buffer, length);
}

}  // namespace

void write_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) refuse(path, errno, kRemedy);
  try {
    write_all(descriptor, text, path);
  } catch (...) {
    ::close(descriptor);
    ::unlink(temporary.c_str());
    throw;
  }
  // Some file systems report a full disk only when the file is closed.
  if (::close(descriptor) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    refuse(path, error, kRemedy);
  }
}

void point_link(const std::string& link, const std::string& target) {
  const std::string temporary = fmt::format("{}.{}.tmp", link, ::getpid());
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0) refuse(link, errno, kRemedy);
  if (::rename(temporary.c_str(), link.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    refuse(link, error, kRemedy);
  }
}

EventLog::EventLog(const std::string& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) refuse(path, errno, "check its permissions or choose another --out");
}

EventLog::~EventLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

EventLog::EventLog(EventLog&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

EventLog& EventLog::operator=(EventLog&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void EventLog::append(const Json& event) {
  if (descriptor_ < 0) return;
  write_all(descriptor_, event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", path_);
}

ResultsFolder::ResultsFolder(const std::string& requested, const std::string& run_id)
    : path_(requested.empty() ? "results/" + run_id : requested) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  std::error_code failure;
  fs::create_directories(path_, failure);
  if (failure) {
    throw Error({Violation{"command line", "--out", path_, "the folder can't be made: " + failure.message(),
                           "choose a folder you may write to"}});
  }
  if (fs::exists(file("result.json")) || fs::exists(file("events.jsonl"))) {
    throw Error(
        {Violation{"command line", "--out", path_, "the folder already holds a run, and results are never overwritten",
                   "choose a new folder"}});
  }
  try {
    events_ = EventLog(file("events.jsonl"));
  } catch (const Error& error) {
    throw Error({Violation{"command line", "--out", path_, error.what(), ""}});
  }
  if (requested.empty()) point_link("results/latest", run_id);
}

std::string compact_utc(std::int64_t unix_seconds) { return format_utc(unix_seconds, "%Y%m%dT%H%M%SZ"); }
std::string iso_utc(std::int64_t unix_seconds) { return format_utc(unix_seconds, "%Y-%m-%dT%H:%M:%SZ"); }

std::string make_run_id(std::int64_t unix_seconds) {
  return fmt::format("{}-{:04x}", compact_utc(unix_seconds), std::random_device{}() & 0xFFFFu);
}

}  // namespace benchsuite

#include "suite/history/sqlite.h"

#include "engine/core/error.h"

namespace benchsuite {

namespace {

std::string remedy(int code) {
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return "another process holds it; try again when that has ended";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM: return "check the folder and its permissions, or name another file with --history";
    case SQLITE_FULL: return "free space there";
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT: return "move the file away; a new one is made";
    default: return "name another file with --history, or run with --no-history";
  }
}

}  // namespace

Database::Database(const std::string& path, Mode mode, int wait_ms) : path_(path) {
  sqlite3* raw = nullptr;
  const int flags = mode == Mode::read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  handle_.reset(raw);
  check(code);
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, wait_ms);
}

void Database::check(int code) const {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
  const char* reason = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
  throw Error(Error::Kind::io, path_ + ": history: " + reason + "; " + remedy(code));
}

void Database::execute(const std::string& sql) {
  check(sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr));
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v2(database.handle_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  handle_.reset(raw);
  database.check(code);
}

Statement& Statement::bind(int index, std::string_view text) {
  database_.check(
      sqlite3_bind_text(handle_.get(), index, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::bind(int index, std::int64_t number) {
  database_.check(sqlite3_bind_int64(handle_.get(), index, number));
  return *this;
}

Statement& Statement::bind(int index, double number) {
  database_.check(sqlite3_bind_double(handle_.get(), index, number));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(handle_.get());
  database_.check(code);
  return code == SQLITE_ROW;
}

void Statement::run() {
  while (step()) {
  }
  reset();
}

void Statement::reset() {
  sqlite3_reset(handle_.get());
  sqlite3_clear_bindings(handle_.get());
}

std::string Statement::text(int column) const {
  const auto* letters = reinterpret_cast<const char*>(sqlite3_column_text(handle_.get(), column));
  return letters ? std::string(letters, static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column))) : "";
}

Transaction::Transaction(Database& database) : database_(database) { database_.execute("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const Error&) {  // SQLite has undone it already; the error that brought us here is the one to tell
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace benchsuite

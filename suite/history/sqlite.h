// SQLite's handles with owners, its error codes as Errors.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace benchsuite {

class Database;

/// One prepared statement. Parameters are numbered from 1, columns from 0.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);

  Statement& bind(int index, std::string_view text);
  Statement& bind(int index, std::int64_t number);
  Statement& bind(int index, double number);

  /// Moves to the next row; false at the end. Throws Error (io).
  bool step();
  /// Runs to the end and makes it ready for other parameters.
  void run();
  void reset();

  std::string text(int column) const;
  std::int64_t integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }
  double number(int column) const { return sqlite3_column_double(handle_.get(), column); }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  Database& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
};

class Database {
 public:
  enum class Mode : std::uint8_t { read, write };

  /// Opens `path`, in mode write making it where it is not there. A lock held by others is waited for `wait_ms`.
  Database(const std::string& path, Mode mode, int wait_ms);

  void execute(const std::string& sql);
  std::int64_t last_row() const { return sqlite3_last_insert_rowid(handle_.get()); }
  const std::string& path() const { return path_; }

  /// Throws Error (io) with the path, SQLite's reason and what to do about it, unless `code` says that all is well.
  void check(int code) const;

 private:
  friend class Statement;
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> handle_;
};

/// All or nothing: what was not committed when it ends is undone.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace benchsuite

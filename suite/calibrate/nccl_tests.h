// Reads what nccl-tests prints, of any version, into tables of one collective each.
//
// Decides by nothing but data rows and nccl-tests' own header lines: column names ("size count type ..."), "Rank n ...
// on HOST device d [bus] GPU", "nThread ...", "nccl-tests version", "Collective test starting:", "Out of bounds". File
// names, comments of others and log lines between the rows never decide. Layouts since 2019 are read: with and without
// redop and root columns, `error` or `#wrong`, blank or N/A in place, timestamps (-S), per-iteration columns (-I), lost
// leading '#', launcher prefixes, colours; JSON (-J) and rccl-tests' JSON lines too.
//
// What the rows themselves tell: size / (count x element size) is 1 for all_reduce, broadcast, reduce and sendrecv and
// the number of ranks for all_gather, reduce_scatter and alltoall; busbw / algbw is 2 (n - 1) / n for all_reduce and
// (n - 1) / n for the latter three (nccl-tests PERFORMANCE.md). all_gather and alltoall print alike: `op_candidates`
// then holds both.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"

namespace benchsuite {

/// One message size. Rates in bytes/s, times in seconds; 0 where the table has none.
struct CollectiveRow {
  std::int64_t size = 0;   ///< bytes, nccl-tests' convention (total buffer)
  std::int64_t count = 0;  ///< elements as printed; 0 in summaries
  double out_of_place_s = 0, in_place_s = 0;
  double busbw = 0;
  std::int64_t wrong = 0;  ///< elements that came out wrong, out of place
  int line = 0;

  /// The better of the two columns: one disturbed average is not the cluster's speed.
  double best_s() const;
};

/// Consecutive rows of one run.
struct CollectiveTable {
  std::string file;
  std::vector<std::string> op_candidates;  ///< one name when known: all_reduce all_gather reduce_scatter alltoall send
                                           ///< broadcast reduce gather scatter
  int ranks_low = 0, ranks_high = 0;       ///< bounds that header, counts and ratios leave; 0, 0: nothing is known
  int nodes = 0;                           ///< distinct hosts of the header; 0: not said
  std::string gpu;                         ///< as the device lines name it; empty: not said
  std::string software;                    ///< nccl-tests and library version as printed
  std::optional<bool> out_of_bounds;       ///< "Out of bounds values" with a count above 0
  std::vector<CollectiveRow> rows;         ///< ascending size, sizes above 0

  bool ranks_known() const { return ranks_low > 0 && ranks_low == ranks_high; }
};

struct NcclTestsFile {
  std::vector<CollectiveTable> tables;
  std::vector<std::string> warnings;  ///< "line 12: ...": rows that could not be read
};

/// `text` is the content of `file`; `file` is used in messages only.
NcclTestsFile read_nccl_tests(std::string_view text, const std::string& file);

/// Summaries: a heading line naming the columns op, ranks, size (bytes) and busbw (GB/s), optionally nodes, in any
/// order, then one row a line. '#' starts a comment. Throws Error (config) with every bad line.
NcclTestsFile read_collective_csv(std::string_view text, const std::string& file);

/// busbw = algbw x factor (nccl-tests PERFORMANCE.md).
double busbw_factor(std::string_view op, int ranks);

/// "all_reduce" for "AllReduce", "all_reduce_perf", "allreduce" and the like; "" for a word that is no collective.
std::string collective_name(std::string_view word);

}  // namespace benchsuite

// Non-blocking messages that belong together, and MPI's return codes as errors.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace benchsuite {

/// Throws Error (run) with MPI's own words unless `code` is success.
void mpi_check(int code, const char* call);

/// Messages of one phase of a collective. Empty messages are left out: both ends know the size.
class MessageSet {
 public:
  void send(MPI_Comm comm, int to, int tag, const std::byte* bytes, std::int64_t count);
  void receive(MPI_Comm comm, int from, int tag, std::byte* bytes, std::int64_t count);
  /// Moves the messages on; true (and empty again) when all have ended.
  bool finished();
  /// Peers of the messages that have not ended.
  std::vector<int> unfinished() const;

 private:
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_, ended_;  // by request; indices that MPI reported
};

}  // namespace benchsuite

// NVTX ranges of a host thread: operations remember the range in which they were queued.
#pragma once

#include <cstddef>
#include <cstdint>

#define NVTX_VERSION 3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE (sizeof(nvtxEventAttributes_t))

enum nvtxMessageType_t { NVTX_MESSAGE_UNKNOWN = 0, NVTX_MESSAGE_TYPE_ASCII = 1 };
enum nvtxPayloadType_t { NVTX_PAYLOAD_UNKNOWN = 0, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 = 1 };

union nvtxMessageValue_t {
  const char* ascii;
};

struct nvtxEventAttributes_t {
  std::uint16_t version;
  std::uint16_t size;
  std::uint32_t category;
  std::int32_t colorType;
  std::uint32_t color;
  std::int32_t payloadType;
  std::int32_t reserved0;
  union {
    std::uint64_t ullValue;
    std::int64_t llValue;
    double dValue;
  } payload;
  std::int32_t messageType;
  nvtxMessageValue_t message;
};

int nvtxRangePushEx(const nvtxEventAttributes_t* attributes);
int nvtxRangePushA(const char* message);
int nvtxRangePop();

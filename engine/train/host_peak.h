// What this host can compute, as the peak that MFU on device cpu is measured against.
#pragma once

namespace benchsuite {

/// FLOP/s of fp32 matrix products (384 x 384 x 384, the product that device cpu uses, multiply-adds as two) on every core at
/// once: the best of three windows of 60 ms. A measurement of the moment, not a datasheet: other load lowers it.
double measure_host_peak();

}  // namespace benchsuite

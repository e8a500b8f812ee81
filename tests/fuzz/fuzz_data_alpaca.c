/* fuzz_data_alpaca.c -- see fuzz_data.h. */
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_data("alpaca", data, size); }

/* fuzz_data_jsonl.c -- see fuzz_data.h. */
/* ctest: watched */
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_data("jsonl", data, size); }

/* fuzz_data_json.c -- a file that is one list of objects, its first bracket given; see fuzz_data.h. */
/* ctest: watched */
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t list[1 << 20];

    if (!size || size + 2 > sizeof list) return 0;
    list[0] = data[0];                  /* how it is read */
    list[1] = '[';
    memcpy(list + 2, data + 1, size - 1);
    return fuzz_data("jsonl", list, size + 1);
}

/* fuzz_safetensors.c -- any bytes as a .safetensors file: refused with a sentence, or every tensor can be found and read.
 *
 * A change of the JSON's length makes its first 8 bytes wrong and the rest unseen, so the input is also tried with them put right:
 * the JSON then ends at the last brace and the spaces after it. */
/* ctest: watched */
#include "fuzz.h"

#include "safetensors/safetensors.h"

static void read_all(const rp_safetensors *set, const rp_safetensor *t, int64_t total_bytes)
{
    float *out       = malloc((size_t)t->elems * sizeof *out + 1);
    rp_status status = rp__safetensors_read(set, t, 0, t->elems, out);
    uint64_t sum     = 0;

    FUZZ_CHECK(status == RP_OK || status == RP_ERR_UNSUPPORTED);
    FUZZ_CHECK(t->offset >= 8 && t->offset + t->bytes <= total_bytes);
    for (int64_t i = 0; i < t->bytes; i++) sum += rp__safetensors_bytes(set, t)[i];
    FUZZ_CHECK(sum < UINT64_MAX);        /* the sum is used, so the reads stay */
    FUZZ_CHECK(rp__safetensors_read(set, t, t->elems, 1, out) != RP_OK);
    FUZZ_CHECK(rp__safetensors_find(set, t->name) == t);
    free(out);
}

static void open_and_read(const uint8_t *data, size_t size)
{
    rp_ctx *ctx         = fuzz_ctx();
    rp_safetensors *set = NULL;
    rp_status status    = rp__safetensors_open_bytes(ctx, "input", data, (int64_t)size, &set);

    if (status != RP_OK) {
        FUZZ_CHECK(!set);
        fuzz_refused(ctx, status);
        return;
    }
    for (int64_t i = 0; i < rp__safetensors_n_tensors(set); i++) read_all(set, rp__safetensors_at(set, i), (int64_t)size);
    rp__safetensors_metadata(set, "format");
    rp__safetensors_close(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_and_read(data, size);
    uint64_t n = size;
    while (n > 8 && data[n - 1] != '}') n--;
    if (n <= 8) return 0;
    while (n < size && data[n] == ' ') n++;
    uint8_t *right = malloc(size);
    FUZZ_CHECK(right);
    memcpy(right, data, size);
    n -= 8;
    memcpy(right, &n, sizeof n);
    open_and_read(right, size);
    free(right);
    return 0;
}

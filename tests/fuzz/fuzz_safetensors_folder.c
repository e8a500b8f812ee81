/* fuzz_safetensors_folder.c -- any bytes as a folder of an index and its shards: the index to the first zero, then the shards "a" and
 * "b", the next two bytes the length of "a". Refused with a sentence, or exactly what the index lists is there. */
/* ctest: watched */
#include "fuzz_folder.h"

#include "safetensors/safetensors.h"

static void check(const rp_safetensors *set)
{
    for (int64_t i = 0; i < rp__safetensors_n_tensors(set); i++) {
        const rp_safetensor *t = rp__safetensors_at(set, i);
        float first;
        FUZZ_CHECK(rp__safetensors_find(set, t->name) == t);
        FUZZ_CHECK(!t->elems || rp__safetensors_read(set, t, t->elems - 1, 1, &first) == RP_OK);
        FUZZ_CHECK(strlen(rp__safetensors_file_name(set, t->file)) > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx         = fuzz_ctx();
    rp_safetensors *set = NULL;
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t rest         = zero ? (size_t)(data + size - zero - 1) : 0;

    if (rest < 2) return 0;
    size_t a = (size_t)zero[1] | (size_t)zero[2] << 8;
    if (a > rest - 2) a = rest - 2;
    fuzz_file("model.safetensors.index.json", data, (size_t)(zero - data));
    fuzz_file("a", zero + 3, a);
    fuzz_file("b", zero + 3 + a, rest - 2 - a);
    rp_status status = rp__safetensors_open(ctx, fuzz_folder(), &set);
    if (status == RP_OK) {
        check(set);
        rp__safetensors_close(set);
        return 0;
    }
    FUZZ_CHECK(!set && (status == RP_ERR_IO || status == RP_ERR_FORMAT || status == RP_ERR_UNSUPPORTED));
    FUZZ_CHECK(rp_error(ctx)[0] && !strchr(rp_error(ctx), '\n'));
    return 0;
}

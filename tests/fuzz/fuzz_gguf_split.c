/* fuzz_gguf_split.c -- any bytes as a model in two GGUF files, the first two bytes the length of the first: refused with a sentence,
 * or the tensors of both are found and read. */
/* ctest: watched */
#include "fuzz_folder.h"

#include "gguf/gguf.h"

static void read_tensor(rp_gguf *g, const rp_gguf_tensor *t)
{
    enum { MANY = 1 << 16 };

    FUZZ_CHECK(rp__gguf_find(g, t->name) == t);
    if (t->elems > MANY) return;
    float *out       = malloc((size_t)t->elems * sizeof *out + 1);
    rp_status status = rp__gguf_read(g, t, 0, t->elems, out);
    FUZZ_CHECK(status == RP_OK || status == RP_ERR_UNSUPPORTED);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx  = fuzz_ctx();
    rp_gguf *g   = NULL;
    size_t first = size < 2 ? 0 : (size_t)data[0] | (size_t)data[1] << 8;

    if (size < 2) return 0;
    if (first > size - 2) first = size - 2;
    fuzz_file("x-00002-of-00002.gguf", data + 2 + first, size - 2 - first);
    rp_status status = rp__gguf_open(ctx, fuzz_file("x-00001-of-00002.gguf", data + 2, first), &g);
    if (status != RP_OK) {
        FUZZ_CHECK(!g && (status == RP_ERR_IO || status == RP_ERR_FORMAT || status == RP_ERR_UNSUPPORTED));
        FUZZ_CHECK(rp_error(ctx)[0] && !strchr(rp_error(ctx), '\n'));
        return 0;
    }
    for (int64_t i = 0; i < rp__gguf_n_tensors(g); i++) read_tensor(g, rp__gguf_tensor_at(g, i));
    rp__gguf_close(g);
    return 0;
}

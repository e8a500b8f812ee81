/* fuzz_gguf.c -- any bytes as a GGUF file: refused with a sentence, or all metadata and every tensor can be found and read. */
/* ctest: watched */
#include "fuzz.h"

#include "gguf/gguf.h"

static void read_value(const rp_gguf *g, const rp_gguf_value *v)
{
    unsigned sum = 0;

    FUZZ_CHECK(rp__gguf_get(g, v->key) == v);
    for (int64_t i = 0; v->kind == RP_GGUF_STRING && i < v->s.bytes; i++) sum += (uint8_t)v->s.text[i];
    for (int64_t i = -1; v->kind == RP_GGUF_ARRAY && i <= v->count; i++) {
        rp_gguf_string s = rp__gguf_array_string(g, v, i);
        double number    = rp__gguf_array_number(g, v, i);
        for (int64_t k = 0; k < s.bytes; k++) sum += (uint8_t)s.text[k];
        FUZZ_CHECK((i >= 0 && i < v->count) || (!s.text && number == 0));
    }
    FUZZ_CHECK(sum < UINT32_MAX);       /* the sum is used, so the reads stay */
}

static void read_tensor(rp_gguf *g, const rp_gguf_tensor *t)
{
    enum { MANY = 1 << 20 };
    int64_t row = t->ndim ? t->dim[t->ndim - 1] : 1;

    FUZZ_CHECK(rp__gguf_find(g, t->name) == t);
    if (t->elems > MANY) return;        /* a quarter of a megabyte of 1-bit blocks; more is only slower */
    float *out       = malloc((size_t)t->elems * sizeof *out + 1);
    rp_status status = rp__gguf_read(g, t, 0, t->elems, out);
    FUZZ_CHECK(status == RP_OK || status == RP_ERR_UNSUPPORTED);
    if (row) FUZZ_CHECK(rp__gguf_read(g, t, t->elems, row, out) != RP_OK);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx      = fuzz_ctx();
    rp_gguf *g       = NULL;
    rp_status status = rp__gguf_open_bytes(ctx, "input", data, (int64_t)size, &g);

    if (status != RP_OK) {
        FUZZ_CHECK(!g);
        fuzz_refused(ctx, status);
        return 0;
    }
    for (int64_t i = 0; i < rp__gguf_n_values(g); i++) read_value(g, rp__gguf_value_at(g, i));
    for (int64_t i = 0; i < rp__gguf_n_tensors(g); i++) read_tensor(g, rp__gguf_tensor_at(g, i));
    rp__gguf_close(g);
    return 0;
}

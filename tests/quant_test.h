/* quant_test.h -- quantised tensors for tests: random codes with moderate scales, and the same numbers in another dtype; models with quantised weights. */
#ifndef RP_QUANT_TEST_H
#define RP_QUANT_TEST_H

#include "rp_test.h"

#include "base/quant.h"
#include "models/weights.h"

/* Where a block has scales of fp16. */
static inline int quant_scales_at(rp_dtype dtype, int at[2])
{
    static const struct { rp_dtype dtype; int n, at[2]; } scales[] = {
        { RP_Q4_0, 1, { 0 } },     { RP_Q4_1, 2, { 0, 2 } },   { RP_Q5_0, 1, { 0 } },    { RP_Q5_1, 2, { 0, 2 } },
        { RP_Q8_0, 1, { 0 } },     { RP_Q2_K, 2, { 80, 82 } }, { RP_Q3_K, 1, { 108 } },  { RP_Q4_K, 2, { 0, 2 } },
        { RP_Q5_K, 2, { 0, 2 } },  { RP_Q6_K, 1, { 208 } },    { RP_IQ4_NL, 1, { 0 } },
    };

    for (int i = 0; i < RP_COUNT(scales); i++)
        if (scales[i].dtype == dtype) {
            memcpy(at, scales[i].at, sizeof scales[i].at);
            return scales[i].n;
        }
    return 0;
}

static inline unsigned quant_draw(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* Fills the bytes of a tensor of `elems` elements. Scales are about 2^-8. */
static inline void quant_fill(const rp_quant_type *type, int64_t elems, uint8_t *base, unsigned seed)
{
    int64_t bytes = rp__quant_bytes(type, elems), blocks = elems / type->block_elems;
    int at[2], n = quant_scales_at(type->dtype, at);

    for (int64_t i = 0; i < bytes; i++) base[i] = (uint8_t)quant_draw(&seed);
    for (int64_t b = 0; b < blocks; b++) {
        uint8_t *block = base + b * type->block_bytes;
        float scale    = (float)(1 + quant_draw(&seed) % 64) / 4096;
        for (int i = 0; i < n; i++) {
            uint16_t half = (uint16_t)(0x1c00u + (quant_draw(&seed) & 0x83ffu));
            memcpy(block + at[i], &half, sizeof half);
        }
        if (type->dtype == RP_NF4_FP32) memcpy(block, &scale, sizeof scale);
        if (type->dtype == RP_NF4 && b % RP_NF4_GROUP == 0) rp__nf4_head(&(rp_quant_slice){ base, 0, bytes }, b / RP_NF4_GROUP, scale, scale * 0.75f);
    }
}

/* A tensor with these codes; yours. */
static inline rp_tensor *quant_tensor(rp_ctx *ctx, const rp_meta *meta, unsigned seed)
{
    rp_tensor *t;
    rp_host h;

    assert_ok(ctx, rp_tensor_new(ctx, meta, RP_MEM_PARAM, &t));
    assert_ok(ctx, rp__tensor_host_all(t, RP_HOST_CHANGE, &h));
    quant_fill(rp__quant_type(meta->dtype), rp_meta_elems(meta), h.data, seed);
    rp__tensor_host_end(&h);
    return t;
}

/* The same numbers in another dtype; yours. */
static inline rp_tensor *quant_plain(const rp_tensor *t, rp_dtype dtype)
{
    int64_t n    = rp_meta_elems(&t->m);
    rp_meta meta = t->m;
    double *v    = malloc((size_t)(n + 1) * sizeof *v);
    rp_tensor *plain;

    meta.dtype = dtype;
    assert_ok(t->ctx, rp_tensor_read(t, v, n));
    assert_ok(t->ctx, rp_tensor_new(t->ctx, &meta, RP_MEM_PARAM, &plain));
    assert_ok(t->ctx, rp_tensor_write(plain, v, n));
    free(v);
    return plain;
}

/* A model before its weights are read. Its weights are frozen. Those of a quantised dtype are quantised while they are read; with RP_F32 they keep the
 * types of the files. All three are yours; `files` may be closed when the weights are read. */
typedef struct { rp_model_files *files; rp_report report; rp_model *model; } quant_opened;

static inline quant_opened quant_open(rp_ctx *ctx, const char *path, rp_dtype stored, rp_dtype dtype, bool mapped)
{
    quant_opened o  = { .files = NULL };
    rp_model_config c = { .family = NULL };

    rp__report_open(&o.report, ctx);
    assert_ok(ctx, rp__model_files_open(ctx, path, NULL, &o.report, &o.files));
    assert_ok(ctx, rp__model_files_quantise(o.files, stored == RP_F32, stored));
    if (mapped) assert_ok(ctx, rp__model_files_map(o.files));
    assert_ok(ctx, rp__model_files_config(o.files, &c));
    c.quant.all_frozen = true;
    assert_ok(ctx, rp__model_build(ctx, &c, dtype, &o.model));
    rp__model_config_drop(&c);
    return o;
}

static inline void quant_close(quant_opened *o)
{
    rp__model_files_close(o->files);
    rp__report_close(&o->report);
}

/* The same, with its weights; yours. */
static inline rp_model *quant_model(rp_ctx *ctx, const char *path, rp_dtype stored, rp_dtype dtype)
{
    quant_opened o = quant_open(ctx, path, stored, dtype, false);

    assert_ok(ctx, rp__model_load(o.model, o.files));
    quant_close(&o);
    return o.model;
}

#endif

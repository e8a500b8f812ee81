/* held_tensors.h -- what a rank of a small run holds: every byte is known by the run, the tensor and its place in the whole. */
#ifndef RP_TEST_HELD_TENSORS_H
#define RP_TEST_HELD_TENSORS_H

#include "state/parts.h"

enum { N_TENSORS = 5 };
typedef struct { rp_state_tensor at[N_TENSORS]; } holding;

static const char *const names[N_TENSORS] = { "norm.weight", "layers.0.w", "layers.0.w.exp_avg", "tok_embeddings.weight", "empty" };
static const rp_meta wholes[N_TENSORS] = {
    { RP_BF16, 1, { 33 } }, { RP_F32, 2, { 3, 7 } }, { RP_BF16, 2, { 3, 7 } }, { RP_F32, 2, { 1009, 3 } }, { RP_F32, 1, { 0 } }
};

/* Byte k of tensor i of the run that `salt` names. */
static inline uint8_t byte_of(uint32_t salt, int i, int64_t k) { return (uint8_t)((salt + (uint32_t)k * 37 + (uint32_t)i) * 2654435761u >> 24); }

/* What a rank has; filled from the whole, ones beyond its slices. ranks 0: the whole, not as slices. */
static inline holding hold(rp_ctx *ctx, int rank, int ranks, uint32_t salt)
{
    holding h;

    for (int i = 0; i < N_TENSORS; i++) {
        rp_state_tensor *t = &h.at[i];
        rp_meta mine       = wholes[i];
        int64_t size       = rp_dtype_bytes(mine.dtype);
        *t = (rp_state_tensor){ .name = names[i], .whole = wholes[i] };
        if (ranks) {
            t->slice = rp__slice_of(rp_meta_elems(&wholes[i]), rank, ranks);
            mine     = rp_meta_1d(mine.dtype, t->slice.room);
        }
        assert_ok(ctx, rp_tensor_new(ctx, &mine, RP_MEM_PARAM, &t->tensor));
        rp_slice s = rp__state_slice(t);
        rp_host all;
        assert_ok(ctx, rp__tensor_host_all(t->tensor, RP_HOST_WRITE, &all));
        uint8_t *p = all.data;
        for (int64_t k = 0; k < rp_meta_bytes(&mine); k++) p[k] = k < s.count * size ? byte_of(salt, i, s.first * size + k) : 0xff;
        rp__tensor_host_end(&all);
    }
    return h;
}

static inline void release_held(holding *h)
{
    for (int i = 0; i < N_TENSORS; i++) rp_tensor_unref(h->at[i].tensor);
}

static inline void assert_holds(const holding *h, uint32_t salt)
{
    for (int i = 0; i < N_TENSORS; i++) {
        rp_slice s       = rp__state_slice(&h->at[i]);
        int64_t size     = rp_dtype_bytes(wholes[i].dtype);
        const uint8_t *p = test_bytes(h->at[i].tensor);
        for (int64_t k = 0; k < rp_meta_bytes(&h->at[i].tensor->m); k++) {
            uint8_t want = k < s.count * size ? byte_of(salt, i, s.first * size + k) : 0;
            if (p[k] != want) fail_msg("'%s': byte %d of the slice from %d on is %d, not %d", names[i], (int)k, (int)s.first, p[k], want);
        }
    }
}

#endif

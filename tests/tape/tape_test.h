/* tape_test.h -- what the tape's tests share: calls that must succeed, filled tensors, bits of gradients. */
#ifndef RP_TAPE_TEST_H
#define RP_TAPE_TEST_H

#include "rp_test.h"
#include "tape/tape.h"

enum { MOST_BITS = 4096 };

/* The bytes of a tensor, for comparing; bytes is -1 where there is none. */
typedef struct { int64_t bytes; uint8_t at[MOST_BITS]; } tensor_bits;

/* Run an op of one output; `...` are attr, then the inputs, then NULL. The output is the caller's. */
rp_tensor *call_op(rp_ctx *ctx, const char *op, const void *attr, ...);
rp_status try_op(rp_ctx *ctx, rp_tensor **out, const char *op, const void *attr, ...);

/* A tensor of class `mem_class`; its elements are drawn from (-scale, scale) by `seed`, or left alone on shapes. */
rp_tensor *new_tensor(rp_ctx *ctx, rp_dtype dtype, int64_t rows, int64_t n, rp_mem_class mem_class, double scale, uint32_t seed);
/* A named parameter that wants a gradient. */
rp_tensor *new_param(rp_ctx *ctx, rp_dtype dtype, int64_t rows, int64_t n, double scale, uint32_t seed, const char *name);
rp_tensor *new_labels(rp_ctx *ctx, int64_t n, int32_t classes);

void bits_of(const rp_tensor *t, tensor_bits *out);
void assert_same_bits(const tensor_bits *got, const tensor_bits *expected, const char *what);
double first_element(const rp_tensor *t);
void drop_grad(rp_tensor *leaf);
rp_mem ledger(rp_ctx *ctx);
int64_t saved_bytes(rp_ctx *ctx);

/* Every use of a value that the tape counts is there: by a backward, by a region's replay, by a call that can be recomputed alone. */
void assert_uses_add_up(const rp_ctx *ctx);

/* The sum of all elements, as a recorded scalar. x stays the caller's. */
rp_tensor *sum_all(rp_ctx *ctx, rp_tensor *x);
rp_status try_sum_all(rp_ctx *ctx, rp_tensor *x, rp_tensor **sum);

#endif

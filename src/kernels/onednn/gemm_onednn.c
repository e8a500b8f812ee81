/* kernels/onednn/gemm_onednn.c -- oneDNN's matmul through its C API, 2.x and 3.x.
 *
 *   description --ask--> entry { scratch bytes, implementation }     10 us, no code
 *   entry --first run--> entry { + primitive }                       a millisecond of code generation, 50 KiB
 *
 * The library's own cache is off (it keeps the code of everything it ever saw); ours holds the ENTRIES used last, for the
 * process, behind one mutex that is not held while a product runs. An entry that runs cannot be evicted.
 * Primitives are made for the nominal thread count of the description, and run with it.
 */
#ifdef RP_HAVE_ONEDNN

#include "kernels/onednn/gemm_onednn.h"

#include "kernels/kernels.h"

#include <dnnl.h>
#include <dnnl_debug.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>

enum { ENTRIES = 256 };

typedef struct { int64_t m, n, k, flags, threads; } key;      /* no padding: compared as bytes */

typedef struct {
    key key;
    uint64_t last_use;                  /* 0: empty */
    int runs;                           /* calls that are executing it now */
    bool takes;
    int64_t scratch_bytes;
    char name[RP_ONEDNN_NAME_CHARS];
    dnnl_primitive_t primitive;         /* NULL until the first run */
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry entries[ENTRIES];
static uint64_t use_count;
static dnnl_engine_t engine;            /* made once, never released: primitives of the process live on it */

#define RP_DNNL_GOTO(expr) \
    do { failure = (expr); if (failure != dnnl_success) goto done; } while (0)

static rp_status failed(rp_ctx *ctx, const rp_gemm *g, dnnl_status_t why)
{
    return rp__fail(ctx, RP_ERR_BACKEND, "oneDNN cannot multiply [%" PRId64 ", %" PRId64 "] by [%" PRId64 ", %" PRId64 "]: %s", g->m,
                    g->k, g->k, g->n, dnnl_status2str(why));
}

/* A forced level binds the library, too. It listens only before its first descriptor. */
static dnnl_status_t start(void)
{
    dnnl_status_t failure = dnnl_success;

    if (engine) return failure;
    RP_DNNL_GOTO(dnnl_set_primitive_cache_capacity(0));
    if (!strcmp(rp__kernels_cpu()->level, "v3")) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
    if (!strcmp(rp__kernels_cpu()->level, "v4")) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
    RP_DNNL_GOTO(dnnl_engine_create(&engine, dnnl_cpu, 0));
done:
    return failure;
}

static bool isa_has(dnnl_cpu_isa_t isa) { return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)isa) == (unsigned)isa; }

/* vdpbf16ps without AMX runs at half the rate of fp32 on Intel's cores and at twice the rate on AMD's. */
static bool bf16_pays(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return isa_has(dnnl_cpu_isa_avx512_core_amx) || (isa_has(dnnl_cpu_isa_avx512_core_bf16) && !__builtin_cpu_is("intel"));
#else
    return false;
#endif
}

static bool wants_library(const rp_gemm *g)
{
    const char *level = rp__kernels_cpu()->level;

    return g->m > 0 && g->n > 0 && g->k > 0 && strcmp(level, "base") && strcmp(level, "none") &&
           dnnl_version()->cpu_runtime == DNNL_RUNTIME_OMP;
}

/* ---- what differs between 2.x and 3.x ---- */

static dnnl_data_type_t type_of(rp_dtype dtype) { return dtype == RP_BF16 ? dnnl_bf16 : dnnl_f32; }

static dnnl_status_t append_sum(dnnl_post_ops_t post)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_post_ops_append_sum(post, 1.0f, 0, dnnl_data_type_undef);
#else
    return dnnl_post_ops_append_sum(post, 1.0f);
#endif
}

typedef struct {
    dnnl_data_type_t type;
    dnnl_dims_t dims, strides;
} matrix;

/* op(stored): a transposed one is read by its strides. */
static matrix matrix_of(rp_dtype dtype, int64_t rows, int64_t columns, bool transposed)
{
    return (matrix){ type_of(dtype), { rows, columns }, { transposed ? 1 : columns, transposed ? rows : 1 } };
}

static dnnl_status_t describe_matmul(const matrix *a, const matrix *b, const matrix *bias, const matrix *c, dnnl_primitive_attr_t attr,
                                     dnnl_primitive_desc_t *out)
{
    dnnl_status_t failure;
#if DNNL_VERSION_MAJOR >= 3
    dnnl_memory_desc_t md[4] = { NULL };
    const matrix *of[4] = { a, b, bias, c };

    for (int i = 0; i < 4; i++)
        if (of[i]) RP_DNNL_GOTO(dnnl_memory_desc_create_with_strides(&md[i], 2, of[i]->dims, of[i]->type, of[i]->strides));
    RP_DNNL_GOTO(dnnl_matmul_primitive_desc_create(out, engine, md[0], md[1], md[2], md[3], attr));
done:
    for (int i = 0; i < 4; i++)
        if (md[i]) dnnl_memory_desc_destroy(md[i]);
#else
    dnnl_memory_desc_t md[4];
    const matrix *of[4] = { a, b, bias, c };
    dnnl_matmul_desc_t matmul;

    for (int i = 0; i < 4; i++)
        if (of[i]) RP_DNNL_GOTO(dnnl_memory_desc_init_by_strides(&md[i], 2, of[i]->dims, of[i]->type, of[i]->strides));
    RP_DNNL_GOTO(dnnl_matmul_desc_init(&matmul, &md[0], &md[1], bias ? &md[2] : NULL, &md[3]));
    RP_DNNL_GOTO(dnnl_primitive_desc_create(out, &matmul, attr, engine, NULL));
done:
#endif
    return failure;
}

/* ---- descriptions ---- */

static dnnl_status_t attributes(const rp_gemm *g, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t post = NULL;
    dnnl_status_t failure;

    RP_DNNL_GOTO(dnnl_primitive_attr_create(attr));
    RP_DNNL_GOTO(dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user));
    if (g->adds) {
        RP_DNNL_GOTO(dnnl_post_ops_create(&post));
        RP_DNNL_GOTO(append_sum(post));
        RP_DNNL_GOTO(dnnl_primitive_attr_set_post_ops(*attr, post));
    }
done:
    if (post) dnnl_post_ops_destroy(post);
    return failure;
}

/* The thread count is taken from OpenMP when a descriptor is made: it must be the description's. */
static dnnl_status_t describe(const rp_gemm *g, dnnl_primitive_desc_t *out)
{
    matrix a = matrix_of(g->ab, g->m, g->k, g->transpose_a), b = matrix_of(g->ab, g->k, g->n, g->transpose_b);
    matrix c = matrix_of(g->c, g->m, g->n, false), bias = matrix_of(g->ab, 1, g->n, false);
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t failure = attributes(g, &attr);
    int team = omp_get_max_threads();

    omp_set_num_threads(g->threads);
    if (failure == dnnl_success) failure = describe_matmul(&a, &b, g->bias ? &bias : NULL, &c, attr, out);
    omp_set_num_threads(team);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return failure;
}

/* "unimplemented" is an answer, not a failure: bf16 where the CPU has no instructions for it. */
static dnnl_status_t fill(const rp_gemm *g, entry *e)
{
    const dnnl_version_t *version = dnnl_version();
    const char *name = "";
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t failure = dnnl_success;

    if (g->ab == RP_BF16 && !bf16_pays()) goto done;
    failure = describe(g, &desc);
    if (failure == dnnl_unimplemented) failure = dnnl_success;
    if (failure != dnnl_success || !desc) goto done;
    RP_DNNL_GOTO(dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name));
    e->takes         = !strncmp(name, "brg", 3);
    e->scratch_bytes = (int64_t)dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
    snprintf(e->name, sizeof e->name, "onednn %d.%d.%d %s", version->major, version->minor, version->patch, name);
done:
    if (desc) dnnl_primitive_desc_destroy(desc);
    return failure;
}

/* ---- the cache, all under the lock ---- */

static key key_of(const rp_gemm *g)
{
    int64_t flags = g->transpose_a | g->transpose_b << 1 | g->adds << 2 | g->bias << 3 | (int64_t)g->ab << 8 | (int64_t)g->c << 16;

    return (key){ g->m, g->n, g->k, flags, g->threads };
}

static entry *find(const key *k)
{
    for (int i = 0; i < ENTRIES; i++)
        if (entries[i].last_use && !memcmp(&entries[i].key, k, sizeof *k)) return &entries[i];
    return NULL;
}

static entry *oldest_idle(void)
{
    entry *oldest = NULL;

    for (int i = 0; i < ENTRIES; i++)
        if (!entries[i].runs && (!oldest || entries[i].last_use < oldest->last_use)) oldest = &entries[i];
    return oldest;
}

static rp_status enter(rp_ctx *ctx, const rp_gemm *g, entry **out)
{
    key k = key_of(g);
    dnnl_status_t failure = start();
    entry *e = find(&k);

    if (failure != dnnl_success) return failed(ctx, g, failure);
    if (!e) {
        e = oldest_idle();
        RP_CHECK(ctx, e, RP_ERR_BACKEND, "%d products of other threads are running: no room for one more", ENTRIES);
        if (e->primitive) dnnl_primitive_destroy(e->primitive);
        *e      = (entry){ .key = k };
        failure = fill(g, e);
        if (failure != dnnl_success) return failed(ctx, g, failure);
    }
    e->last_use = ++use_count;
    *out        = e;
    return RP_OK;
}

static rp_status compile(rp_ctx *ctx, const rp_gemm *g, entry *e)
{
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t failure = dnnl_success;
    int team = omp_get_max_threads();

    if (e->primitive) return RP_OK;
    RP_DNNL_GOTO(describe(g, &desc));
    omp_set_num_threads(g->threads);
    failure = dnnl_primitive_create(&e->primitive, desc);
    omp_set_num_threads(team);
done:
    if (desc) dnnl_primitive_desc_destroy(desc);
    return failure == dnnl_success ? RP_OK : failed(ctx, g, failure);
}

/* ---- running ---- */

typedef struct { int name; dnnl_query_t query; void *data; } operand;

static dnnl_status_t execute(const rp_gemm *g, dnnl_primitive_t primitive, const operand *operands, int n)
{
    const_dnnl_primitive_desc_t desc;
    dnnl_exec_arg_t args[5] = { { 0 } };
    dnnl_stream_t stream = NULL;
    dnnl_status_t failure;
    int team = omp_get_max_threads(), made = 0;

    RP_DNNL_GOTO(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    RP_DNNL_GOTO(dnnl_primitive_get_primitive_desc(primitive, &desc));
    for (; made < n; made++) {
        const operand *o = &operands[made];
        int index        = o->name == DNNL_ARG_BIAS;           /* the bias is the second of the weights */
        args[made].arg   = o->name;
        RP_DNNL_GOTO(dnnl_memory_create(&args[made].memory, dnnl_primitive_desc_query_md(desc, o->query, index), engine, o->data));
    }
    omp_set_num_threads(g->threads);
    failure = dnnl_primitive_execute(primitive, stream, n, args);
    if (failure == dnnl_success) failure = dnnl_stream_wait(stream);
    omp_set_num_threads(team);
done:
    for (int i = 0; i < made; i++) dnnl_memory_destroy(args[i].memory);
    if (stream) dnnl_stream_destroy(stream);
    return failure;
}

rp_status rp__onednn_ask(rp_ctx *ctx, const rp_gemm *g, rp_onednn_answer *out)
{
    entry *e = NULL;

    *out = (rp_onednn_answer){ .takes = false };
    if (!wants_library(g)) return RP_OK;
    pthread_mutex_lock(&lock);
    rp_status status = enter(ctx, g, &e);
    if (status == RP_OK && e->takes) {
        *out = (rp_onednn_answer){ .takes = true, .scratch_bytes = e->scratch_bytes };
        memcpy(out->name, e->name, sizeof out->name);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* An entry the library refuses is found, not run; one that runs is pinned until it has. */
static rp_status pin(rp_ctx *ctx, const rp_gemm *g, entry **out)
{
    entry *e = NULL;

    pthread_mutex_lock(&lock);
    rp_status status = enter(ctx, g, &e);
    if (status == RP_OK && e->takes) status = compile(ctx, g, e);
    if (status == RP_OK && e->takes) e->runs++;
    *out = status == RP_OK && e->takes ? e : NULL;
    pthread_mutex_unlock(&lock);
    return status;
}

rp_status rp__onednn_gemm(rp_ctx *ctx, const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch,
                          bool *took)
{
    entry *e = NULL;

    *took = false;
    if (wants_library(g)) RP_TRY(pin(ctx, g, &e));
    if (!e) return RP_OK;
    operand operands[5] = { { DNNL_ARG_SRC, dnnl_query_src_md, (void *)a },
                            { DNNL_ARG_WEIGHTS, dnnl_query_weights_md, (void *)b },
                            { DNNL_ARG_DST, dnnl_query_dst_md, c },
                            { DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md, scratch },
                            { DNNL_ARG_BIAS, dnnl_query_weights_md, (void *)bias } };
    dnnl_status_t failure = execute(g, e->primitive, operands, g->bias ? 5 : 4);
    pthread_mutex_lock(&lock);
    e->runs--;
    pthread_mutex_unlock(&lock);
    *took = failure == dnnl_success;
    return failure == dnnl_success ? RP_OK : failed(ctx, g, failure);
}

#endif

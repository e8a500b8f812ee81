/* bench/onednn/gemm.c -- one product as a primitive of oneDNN: described, compiled, run. */
#include "bench/onednn/gemm.h"

#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

struct onednn_product {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[4];
    int n_args, threads;
    void *scratch;
};

#define TRY(expr) \
    do { if ((expr) != dnnl_success) return false; } while (0)

const char *onednn_name(void)
{
    static char name[32];
    const dnnl_version_t *v = dnnl_version();

    snprintf(name, sizeof name, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return name;
}

/* ---- what differs between 2.x and 3.x ---- */

typedef struct {
    dnnl_data_type_t type;
    dnnl_dims_t dims, strides;
} matrix;

/* op(stored): a transposed one is read by its strides. */
static matrix matrix_of(rp_dtype dtype, int64_t rows, int64_t columns, bool transposed)
{
    return (matrix){ dtype == RP_BF16 ? dnnl_bf16 : dnnl_f32, { rows, columns }, { transposed ? 1 : columns, transposed ? rows : 1 } };
}

#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t append_sum(dnnl_post_ops_t post) { return dnnl_post_ops_append_sum(post, 1.0f, 0, dnnl_data_type_undef); }

static bool describe(dnnl_engine_t engine, const matrix *of, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
    dnnl_memory_desc_t md[3];

    for (int i = 0; i < 3; i++) TRY(dnnl_memory_desc_create_with_strides(&md[i], 2, of[i].dims, of[i].type, of[i].strides));
    TRY(dnnl_matmul_primitive_desc_create(out, engine, md[0], md[1], NULL, md[2], attr));
    for (int i = 0; i < 3; i++) dnnl_memory_desc_destroy(md[i]);
    return true;
}
#else
static dnnl_status_t append_sum(dnnl_post_ops_t post) { return dnnl_post_ops_append_sum(post, 1.0f); }

static bool describe(dnnl_engine_t engine, const matrix *of, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
    dnnl_memory_desc_t md[3];
    dnnl_matmul_desc_t matmul;

    for (int i = 0; i < 3; i++) TRY(dnnl_memory_desc_init_by_strides(&md[i], 2, of[i].dims, of[i].type, of[i].strides));
    TRY(dnnl_matmul_desc_init(&matmul, &md[0], &md[1], NULL, &md[2]));
    TRY(dnnl_primitive_desc_create(out, &matmul, attr, engine, NULL));
    return true;
}
#endif

/* ---- a product ---- */

static bool attributes(bool adds, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t post;

    TRY(dnnl_primitive_attr_create(attr));
    TRY(dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user));
    if (!adds) return true;
    TRY(dnnl_post_ops_create(&post));
    TRY(append_sum(post));
    TRY(dnnl_primitive_attr_set_post_ops(*attr, post));
    TRY(dnnl_post_ops_destroy(post));
    return true;
}

static bool add_operand(onednn_product *p, const_dnnl_primitive_desc_t desc, int name, dnnl_query_t query, void *data)
{
    dnnl_exec_arg_t *arg = &p->args[p->n_args];

    arg->arg = name;
    TRY(dnnl_memory_create(&arg->memory, dnnl_primitive_desc_query_md(desc, query, 0), p->engine, data));
    p->n_args++;
    return true;
}

static bool make_primitive(onednn_product *p, const rp_gemm *g)
{
    matrix of[3] = { matrix_of(g->ab, g->m, g->k, g->transpose_a), matrix_of(g->ab, g->k, g->n, g->transpose_b),
                     matrix_of(g->c, g->m, g->n, false) };
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t desc;

    omp_set_num_threads(g->on.threads);        /* a primitive is made for that many */
    TRY(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    TRY(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
    if (!attributes(g->adds, &attr) || !describe(p->engine, of, attr, &desc)) return false;
    TRY(dnnl_primitive_attr_destroy(attr));
    TRY(dnnl_primitive_create(&p->primitive, desc));
    TRY(dnnl_primitive_desc_destroy(desc));
    return true;
}

static bool set_operands(onednn_product *p, const void *a, const void *b, void *c)
{
    const_dnnl_primitive_desc_t desc;

    TRY(dnnl_primitive_get_primitive_desc(p->primitive, &desc));
    size_t bytes = dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
    p->scratch   = aligned_alloc(RP_ALIGN, (size_t)rp__align_up((int64_t)bytes + 1));
    return p->scratch && add_operand(p, desc, DNNL_ARG_SRC, dnnl_query_src_md, (void *)a) &&
           add_operand(p, desc, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, (void *)b) && add_operand(p, desc, DNNL_ARG_DST, dnnl_query_dst_md, c) &&
           add_operand(p, desc, DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md, p->scratch);
}

onednn_product *onednn_new(const rp_gemm *g, const void *a, const void *b, void *c)
{
    onednn_product *p = calloc(1, sizeof *p);

    if (!p) return NULL;
    p->threads = g->on.threads;
    if (make_primitive(p, g) && set_operands(p, a, b, c)) return p;
    onednn_free(p);
    return NULL;
}

bool onednn_run(onednn_product *p)
{
    omp_set_num_threads(p->threads);
    TRY(dnnl_primitive_execute(p->primitive, p->stream, p->n_args, p->args));
    TRY(dnnl_stream_wait(p->stream));
    return true;
}

void onednn_free(onednn_product *p)
{
    if (!p) return;
    for (int i = 0; i < p->n_args; i++) dnnl_memory_destroy(p->args[i].memory);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    if (p->stream) dnnl_stream_destroy(p->stream);
    if (p->engine) dnnl_engine_destroy(p->engine);
    free(p->scratch);
    free(p);
}

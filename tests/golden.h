/* golden.h -- reads what tests/golden holds and compares with it.
 *
 *   golden *g = golden_open(ctx, "models/llama3/golden");      golden.safetensors and golden.json of that folder
 *   golden_tensor want = golden_get(g, "grad.lm_head.weight");
 *   assert_rel_l2(mine, &want, 1e-5);
 *
 * Numbers of the JSON are named by their path, "adamw/losses/3" or "bfloat16_error/grad_rel_l2/lm_head.weight": names of
 * parameters have dots, never slashes. Values are doubles whatever the file holds. What is absent fails the test by its name.
 */
#ifndef RP_GOLDEN_H
#define RP_GOLDEN_H

#include <math.h>

#include <jansson.h>

#include "rp_test.h"
#include "safetensors/safetensors.h"

typedef struct {
    rp_ctx *ctx;
    rp_safetensors *tensors;            /* NULL where there is only JSON */
    json_t *json;
    char name[256];
} golden;

typedef struct {
    const char *name;                   /* borrowed from the golden */
    bool is_int;                        /* ids, positions, labels */
    int ndim;
    int64_t dim[RP_SAFETENSORS_MAX_DIM], elems;
    double *value;                      /* yours: golden_tensor_free */
} golden_tensor;

/* "<source>/tests/golden/<name>" into out[RP_GOLDEN_PATH]; "models/llama3" is a folder a model is loaded from. */
#define RP_GOLDEN_PATH 512
static inline const char *golden_path(char *out, const char *name)
{
    int n = snprintf(out, RP_GOLDEN_PATH, "%s/tests/golden/%s", RP_SOURCE_DIR, name);

    assert_in_range(n, 1, RP_GOLDEN_PATH - 1);
    return out;
}

static inline golden *golden_open(rp_ctx *ctx, const char *name)
{
    char path[RP_GOLDEN_PATH], file[RP_GOLDEN_PATH];
    golden *g = calloc(1, sizeof *g);
    json_error_t error;
    FILE *probe;

    assert_non_null(g);
    g->ctx = ctx;
    assert_in_range(snprintf(g->name, sizeof g->name, "%s", name), 1, sizeof g->name - 1);
    snprintf(file, sizeof file, "%s.json", name);
    g->json = json_load_file(golden_path(path, file), 0, &error);
    if (!g->json) fail_msg("golden '%s': line %d: %s", path, error.line, error.text);
    snprintf(file, sizeof file, "%s.safetensors", name);
    if ((probe = fopen(golden_path(path, file), "rb")) != NULL) {
        fclose(probe);
        assert_ok(ctx, rp__safetensors_open(ctx, path, &g->tensors));
    }
    return g;
}

static inline void golden_close(golden *g)
{
    rp__safetensors_close(g->tensors);
    json_decref(g->json);
    free(g);
}

/* ---- numbers ---- */

/* The value at a path, NULL where there is none. */
static inline const json_t *golden_at(const golden *g, const char *path)
{
    const json_t *at = g->json;
    char key[256];
    int64_t index;

    while (at && *path) {
        size_t n = strcspn(path, "/");
        assert_in_range(n, 1, sizeof key - 1);
        memcpy(key, path, n);
        key[n] = '\0';
        path += n + (path[n] == '/');
        if (!json_is_array(at)) at = json_object_get(at, key);
        else at = rp__parse_int(key, 0, INT32_MAX, &index) ? json_array_get(at, (size_t)index) : NULL;
    }
    return at;
}

static inline double golden_number(const golden *g, const char *path)
{
    const json_t *at = golden_at(g, path);

    if (!json_is_number(at)) fail_msg("golden '%s' has no number '%s'", g->name, path);
    return json_number_value(at);
}

static inline const char *golden_text(const golden *g, const char *path)
{
    const json_t *at = golden_at(g, path);

    if (!json_is_string(at)) fail_msg("golden '%s' has no text '%s'", g->name, path);
    return json_string_value(at);
}

/* Elements of the array, or members of the object, at a path. */
static inline int64_t golden_count(const golden *g, const char *path)
{
    const json_t *at = golden_at(g, path);

    if (!json_is_array(at) && !json_is_object(at)) fail_msg("golden '%s' has no list '%s'", g->name, path);
    return json_is_array(at) ? (int64_t)json_array_size(at) : (int64_t)json_object_size(at);
}

/* ---- tensors ---- */

static inline double golden_element(const rp_safetensor *t, const uint8_t *bytes, int64_t i)
{
    union { double d; float f; int32_t n; } v;

    switch (t->dtype) {
    case RP_ST_F64: memcpy(&v.d, bytes + 8 * i, 8); return v.d;
    case RP_ST_F32: memcpy(&v.f, bytes + 4 * i, 4); return v.f;
    case RP_ST_I32: memcpy(&v.n, bytes + 4 * i, 4); return v.n;
    default: fail_msg("golden tensor '%s' is %s, expected F64, F32 or I32", t->name, rp__safetensors_dtype_name(t->dtype));
    }
    return NAN;
}

static inline golden_tensor golden_read(const rp_safetensors *tensors, const rp_safetensor *t)
{
    golden_tensor out = { .name = t->name, .is_int = t->dtype == RP_ST_I32, .ndim = t->ndim, .elems = t->elems };
    const uint8_t *bytes = rp__safetensors_bytes(tensors, t);

    memcpy(out.dim, t->dim, sizeof out.dim);
    out.value = malloc((size_t)(t->elems ? t->elems : 1) * sizeof *out.value);
    assert_non_null(out.value);
    for (int64_t i = 0; i < t->elems; i++) out.value[i] = golden_element(t, bytes, i);
    return out;
}

static inline golden_tensor golden_get(const golden *g, const char *name)
{
    const rp_safetensor *t = g->tensors ? rp__safetensors_find(g->tensors, name) : NULL;

    if (!t) fail_msg("golden '%s' has no tensor '%s'", g->name, name);
    return golden_read(g->tensors, t);
}

static inline void golden_tensor_free(golden_tensor *t)
{
    free(t->value);
    t->value = NULL;
}

/* Token ids, labels, positions: elements [start, start + count) as int32, yours to free. */
static inline int32_t *golden_ints(const golden *g, const char *name, int64_t start, int64_t count)
{
    golden_tensor t = golden_get(g, name);
    int32_t *out = malloc((size_t)count * sizeof *out);

    assert_non_null(out);
    assert_true(start >= 0 && count >= 1 && start + count <= t.elems);
    for (int64_t i = 0; i < count; i++) out[i] = (int32_t)t.value[start + i];
    golden_tensor_free(&t);
    return out;
}

/* Walks the tensors whose names begin with `prefix`: the part of the name after it, or NULL at the end. Start with *at = 0. */
static inline const char *golden_next(const golden *g, const char *prefix, int64_t *at)
{
    size_t n = strlen(prefix);

    while (g->tensors && *at < rp__safetensors_n_tensors(g->tensors)) {
        const char *name = rp__safetensors_at(g->tensors, (*at)++)->name;
        if (!strncmp(name, prefix, n)) return name + n;
    }
    return NULL;
}

/* ---- comparing: a NaN on either side is the worst there is ---- */

static inline double golden_max_abs(const double *got, const double *want, int64_t n)
{
    double worst = 0;

    for (int64_t i = 0; i < n; i++) {
        double d = fabs(got[i] - want[i]);
        if (isnan(d)) return INFINITY;
        if (d > worst) worst = d;
    }
    return worst;
}

/* |got - want| / |want|; the difference alone where want is all zero. */
static inline double golden_rel_l2(const double *got, const double *want, int64_t n)
{
    double off = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        off += (got[i] - want[i]) * (got[i] - want[i]);
        size += want[i] * want[i];
    }
    if (isnan(off) || isnan(size)) return INFINITY;
    return size > 0 ? sqrt(off / size) : sqrt(off);
}

#define assert_rel_l2(got, want, limit) \
    golden_within("relative L2", (want), golden_rel_l2((got), (want)->value, (want)->elems), (limit))
#define assert_max_abs(got, want, limit) \
    golden_within("max abs", (want), golden_max_abs((got), (want)->value, (want)->elems), (limit))
static inline void golden_within(const char *what, const golden_tensor *want, double off, double limit)
{
    if (!(off <= limit)) fail_msg("'%s': %s difference %.3g, at most %.3g is allowed", want->name, what, off, limit);
}

#endif

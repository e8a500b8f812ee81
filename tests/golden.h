/* golden.h -- reads what tests/golden holds and compares with it.
 *
 * Large tensors are stored as sketches (tools/golden_sketch.py). A sketch has the shape of its tensor, and a tensor can be compared with it,
 * but it holds no elements.
 *
 *   golden *g = golden_open(ctx, "models/llama3/golden");      golden.safetensors of that folder, and its numbers
 *   golden_tensor want = golden_get(g, "grad.lm_head.weight");
 *   assert_rel_l2(mine, &want, 1e-5);
 *
 * Numbers are JSON in the metadata of the file of tensors, or in NAME.json beside it. They are named by their path, "adamw/losses/3" or
 * "bfloat16_error/grad_rel_l2/lm_head.weight": names of parameters have dots, never slashes. Values are doubles whatever the file holds. If a
 * name is absent, the test fails and prints it.
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
    int parts;                          /* of a sketch; 0: the elements are here */
    double *value;                      /* yours: golden_tensor_free */
} golden_tensor;

/* One row of a sketch: sums of a part's elements under random signs, the part's norm, and the shape of the whole tensor, padded with zeros. */
enum { GOLDEN_SUMS = 64, GOLDEN_DIMS = 4 };
typedef struct { double sum[GOLDEN_SUMS], norm, dim[GOLDEN_DIMS]; } golden_part;

/* Limits of sketches are multiplied by this. A sketch shows less than this share of a difference once in 5,000 cases, less than half of it once
 * in 7 billion. */
static const double golden_sketch_share = 0.7;

/* "<source>/tests/golden/<name>" into out[RP_GOLDEN_PATH]; "models/llama3" is a folder a model is loaded from. */
#define RP_GOLDEN_PATH 512
static inline const char *golden_path(char *out, const char *name)
{
    int n = snprintf(out, RP_GOLDEN_PATH, "%s/tests/golden/%s", RP_SOURCE_DIR, name);

    assert_in_range(n, 1, RP_GOLDEN_PATH - 1);
    return out;
}

/* From the metadata of the tensors, else from NAME.json. */
static inline json_t *golden_numbers(const golden *g)
{
    const char *text = g->tensors ? rp__safetensors_metadata(g->tensors, "numbers") : NULL;
    char path[RP_GOLDEN_PATH], file[RP_GOLDEN_PATH];
    json_error_t error;

    snprintf(file, sizeof file, "%s.json", g->name);
    json_t *json = text ? json_loads(text, 0, &error) : json_load_file(golden_path(path, file), 0, &error);
    if (!json) fail_msg("golden '%s': line %d: %s", g->name, error.line, error.text);
    return json;
}

static inline golden *golden_open(rp_ctx *ctx, const char *name)
{
    char path[RP_GOLDEN_PATH], file[RP_GOLDEN_PATH];
    golden *g = calloc(1, sizeof *g);
    FILE *probe;

    assert_non_null(g);
    g->ctx = ctx;
    assert_in_range(snprintf(g->name, sizeof g->name, "%s", name), 1, sizeof g->name - 1);
    snprintf(file, sizeof file, "%s.safetensors", name);
    if ((probe = fopen(golden_path(path, file), "rb")) != NULL) {
        fclose(probe);
        assert_ok(ctx, rp__safetensors_open(ctx, path, &g->tensors));
    }
    g->json = golden_numbers(g);
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

/* Replaces the shape of the stored rows by the shape of the tensor. */
static inline void golden_take_shape(golden_tensor *t)
{
    const golden_part *part = (const golden_part *)t->value;

    t->parts = (int)t->dim[0];
    t->elems = 1;
    for (t->ndim = 0; t->ndim < GOLDEN_DIMS && part->dim[t->ndim] > 0; t->ndim++) {
        t->dim[t->ndim] = (int64_t)part->dim[t->ndim];
        t->elems *= t->dim[t->ndim];
    }
    assert_int_equal(t->elems % t->parts, 0);
}

static inline golden_tensor golden_read(const rp_safetensors *tensors, const rp_safetensor *t)
{
    golden_tensor out = { .name = t->name, .is_int = t->dtype == RP_ST_I32, .ndim = t->ndim, .elems = t->elems };
    const uint8_t *bytes = rp__safetensors_bytes(tensors, t);

    memcpy(out.dim, t->dim, sizeof out.dim);
    out.value = malloc((size_t)(t->elems ? t->elems : 1) * sizeof *out.value);
    assert_non_null(out.value);
    for (int64_t i = 0; i < t->elems; i++) out.value[i] = golden_element(t, bytes, i);
    if (rp__safetensors_metadata(tensors, "sketch") && t->ndim == 2 && t->dim[1] == (int64_t)(sizeof(golden_part) / sizeof(double))) golden_take_shape(&out);
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
    assert_true(t.is_int);
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

/* splitmix64's number i: bit j is 1 if element i is subtracted in sum j. */
static inline uint64_t golden_signs(uint64_t i)
{
    uint64_t z = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The sketch's estimate of |got - want| over the elements [first, first + n). */
static inline double golden_part_off(const double *got, const golden_part *want, int64_t first, int64_t n)
{
    double sum[GOLDEN_SUMS] = { 0 }, none[GOLDEN_SUMS] = { 0 };

    for (int64_t i = first; i < first + n; i++) {
        uint64_t signs = golden_signs((uint64_t)i);
        for (int j = 0; j < GOLDEN_SUMS; j++) sum[j] += signs >> j & 1 ? -got[i] : got[i];
    }
    for (int j = 0; j < GOLDEN_SUMS; j++) sum[j] = sum[j] / 8 - want->sum[j];
    return golden_rel_l2(sum, none, GOLDEN_SUMS);
}

/* The squared norm of the whole tensor. */
static inline double golden_square(const golden_tensor *t)
{
    const golden_part *part = (const golden_part *)t->value;
    double square           = 0;

    for (int64_t i = 0; i < t->elems && !t->parts; i++) square += t->value[i] * t->value[i];
    for (int p = 0; p < t->parts; p++) square += part[p].norm * part[p].norm;
    return square;
}

/* |got - want| / |want|, or a sketch's estimate of it. */
static inline double golden_off_rel(const double *got, const golden_tensor *want)
{
    const golden_part *part = (const golden_part *)want->value;
    double off = 0, size = 0;

    if (!want->parts) return golden_rel_l2(got, want->value, want->elems);
    for (int p = 0; p < want->parts; p++) {
        int64_t n  = want->elems / want->parts;
        double one = golden_part_off(got, &part[p], p * n, n);
        off += one * one;
        size += part[p].norm * part[p].norm;
    }
    return sqrt(size > 0 ? off / size : off);
}

/* The largest difference of an element. For a sketch: the largest |got - want| of a part, which bounds it from above. */
static inline double golden_off_max(const double *got, const golden_tensor *want)
{
    const golden_part *part = (const golden_part *)want->value;
    double worst            = 0;

    if (!want->parts) return golden_max_abs(got, want->value, want->elems);
    for (int p = 0; p < want->parts; p++) worst = fmax(worst, golden_part_off(got, &part[p], p * (want->elems / want->parts), want->elems / want->parts));
    return worst;
}

#define assert_rel_l2(got, want, limit) golden_within("relative L2", (want), golden_off_rel((got), (want)), (limit))
#define assert_max_abs(got, want, limit) golden_within("max abs", (want), golden_off_max((got), (want)), (limit))
static inline void golden_within(const char *what, const golden_tensor *want, double off, double limit)
{
    if (want->parts) limit *= golden_sketch_share;
    if (!(off <= limit)) fail_msg("'%s': %s difference %.3g, at most %.3g is allowed", want->name, what, off, limit);
}

#endif

/* cost/file.c -- writes and reads a measured table as JSON, one line per row, and finds the path of its file.
 *
 *   {
 *    "format": 1, "reprise": "0.1.0", "cpu": …, "level": …, "isa": …, "fp32_products": …, "bf16_products": …, "threads": 2,
 *    "measured": "full",                                                     or "quick"
 *    "update": {"fp32": …, "bf16": …, "fp64": …, "uint8": …}, "offload": …,  bytes/s
 *    "cache": …, "near": …,                                                  bytes · times the speed of memory
 *    "rows": [
 *     {"op": "matmul", "dtype": "fp32", "pass": "forward", "overhead": seconds, "rate": FLOP/s, "bandwidth": bytes/s},
 *     …                                                                      op "others": for ops without a row
 *    ],
 *    "hash": "0123456789abcdef"                                              of the object without it, compact, keys sorted
 *   }
 *
 * Older tables have neither "cache" nor "near" nor "uint8". A table of another version of Reprise may have rows of unknown ops. It counts as
 * foreign, not as damaged.
 */
#include "cost/internal.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_text.h"

enum { FORMAT = 1, HEX_CHARS = 17, HEAD_CHARS = 4096 };

static const char *const origins[] = { [RP_COST_QUICK] = "quick", [RP_COST_FULL] = "full" };

/* The text members of the head and their fields. */
static const struct {
    const char *key;
    size_t offset, bytes;
} texts[] = {
#define TEXT(key, field) { key, offsetof(rp_cost_machine, field), sizeof ((rp_cost_machine *)0)->field }
    TEXT("cpu", cpu), TEXT("level", level), TEXT("isa", isa), TEXT("fp32_products", product[0]), TEXT("bf16_products", product[1]),
#undef TEXT
};

double rp__cost_rounded(double x)
{
    char text[32];

    snprintf(text, sizeof text, "%.3e", x);
    return strtod(text, NULL);
}

/* Write the hash of the object without "hash" to out. Returns false if memory runs out. */
static bool hash_of(const json_t *root, char out[HEX_CHARS])
{
    uint64_t hash;
    bool hashed = rp__json_hash_without(root, "hash", &hash);

    if (hashed) snprintf(out, HEX_CHARS, "%016" PRIx64, hash);
    return hashed;
}

/* ---- writing ---- */

typedef struct {
    char *text;
    int64_t used, room;
    bool lost;                          /* jansson ran out of memory */
} writer;

static void file_put(writer *w, const char *fmt, ...) RP_PRINTF(2, 3);
static void file_put(writer *w, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(w->text + w->used, (size_t)(w->room - w->used), fmt, args);
    va_end(args);
    RP_BUG_IF(n < 0 || n >= w->room - w->used);
    w->used += n;
}

/* Takes ownership of the value. */
static void put_json(writer *w, json_t *value, size_t digits)
{
    char *text = value ? rp__json_text(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits)) : NULL;

    json_decref(value);
    if (text) file_put(w, "%s", text);
    else w->lost = true;
    free(text);
}

static size_t digits_of(double x) { return rp__cost_rounded(x) == x ? 4 : 17; }

static void put_text(writer *w, const char *key, const char *value)
{
    file_put(w, " \"%s\": ", key);
    put_json(w, json_string(value), 17);
    file_put(w, ",\n");
}

static void put_number(writer *w, const char *before, const char *key, double x)
{
    file_put(w, "%s\"%s\": ", before, key);
    put_json(w, json_real(x), digits_of(x));
}

static void put_head(writer *w, const rp_cost_table *t)
{
    file_put(w, "{\n \"format\": %d,\n", FORMAT);
    put_text(w, "reprise", rp_version());
    for (int i = 0; i < RP_COUNT(texts); i++) put_text(w, texts[i].key, (const char *)&t->machine + texts[i].offset);
    file_put(w, " \"threads\": %d,\n", t->machine.threads);
    put_text(w, "measured", origins[t->origin]);
    file_put(w, " \"update\": ");
    for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++)
        put_number(w, d ? ", " : "{", rp_dtype_name(rp__cost_dtypes[d]), t->move[rp__cost_dtypes[d]]);
    put_number(w, ", ", rp_dtype_name(RP_U8), t->move[RP_U8]);
    put_number(w, "},\n ", "offload", t->offload);
    put_number(w, ",\n ", "cache", t->cache);
    put_number(w, ", ", "near", t->near);
}

static void put_row(writer *w, int op, rp_dtype dtype, rp_pass pass, const rp_cost_row *r, bool first)
{
    file_put(w, "%s  {\"op\": \"%s\", \"dtype\": \"%s\", \"pass\": \"%s\"", first ? "" : ",\n", rp__cost_op_name(op), rp_dtype_name(dtype),
        rp__cost_pass_names[pass]);
    put_number(w, ", ", "overhead", r->overhead);
    put_number(w, ", ", "rate", r->rate);
    put_number(w, ", ", "bandwidth", r->bandwidth);
    file_put(w, "}");
}

static void put_rows(writer *w, const rp_cost_table *t)
{
    bool first = true;

    file_put(w, ",\n \"rows\": [\n");
    for (int op = 0; op <= rp__op_count(); op++)
        for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++)
            for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) {
                const rp_cost_row *r = rp__cost_row(t, op, rp__cost_dtypes[d], pass);
                if (r->rate <= 0) continue;
                put_row(w, op, rp__cost_dtypes[d], pass, r, first);
                first = false;
            }
    file_put(w, "\n ]\n}\n");
}

/* Replaces the end of the text. */
static void put_hash(writer *w)
{
    json_t *root = w->lost ? NULL : rp__json_read(w->text, (size_t)w->used, 0, NULL);
    char hash[HEX_CHARS];

    w->lost = !root || !hash_of(root, hash);
    json_decref(root);
    if (w->lost) return;
    w->used -= (int64_t)strlen("\n}\n");
    file_put(w, ",\n \"hash\": \"%s\"\n}\n", hash);
}

rp_status rp__cost_text(rp_ctx *ctx, const rp_cost_table *table, char **text)
{
    writer w = { .room = HEAD_CHARS + (int64_t)(rp__op_count() + 1) * RP_COUNT(rp__cost_dtypes) * RP_COST_PASSES * 256 };

    RP_BUG_IF(!rp__cost_measured(table));
    w.text = rp__host_alloc(ctx, w.room);
    if (!w.text) return RP_ERR_MEMORY;
    put_head(&w, table);
    put_rows(&w, table);
    put_hash(&w);
    if (!w.lost) {
        *text = w.text;
        return RP_OK;
    }
    rp__release(w.text);
    return rp_fail(ctx, RP_ERR_MEMORY, "out of memory: the text of a cost table");
}

/* ---- reading: each function returns NULL or a description of the fault ---- */

static const char not_ours[] = "a row is of an op of another version", no_memory[] = "memory ran out";

static bool read_number(const json_t *from, const char *key, double low, double high, double *out)
{
    const json_t *value = json_object_get(from, key);

    *out = json_number_value(value);
    return json_is_number(value) && *out >= low && *out <= high;
}

static const char *read_head(const json_t *root, rp_cost_table *t)
{
    const char *measured = json_string_value(json_object_get(root, "measured"));
    double threads;

    for (int i = 0; i < RP_COUNT(texts); i++) {
        const json_t *value = json_object_get(root, texts[i].key);
        if (!json_is_string(value) || json_string_length(value) >= texts[i].bytes) return "the description of the machine is incomplete";
        memcpy((char *)&t->machine + texts[i].offset, json_string_value(value), json_string_length(value));
    }
    if (!read_number(root, "threads", 1, 1 << 20, &threads)) return "'threads' is not a number from 1 up";
    t->machine.threads = (int)threads;
    if (!measured || (strcmp(measured, "quick") && strcmp(measured, "full"))) return "'measured' is neither 'quick' nor 'full'";
    t->origin = strcmp(measured, "quick") ? RP_COST_FULL : RP_COST_QUICK;
    for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++)
        if (!read_number(json_object_get(root, "update"), rp_dtype_name(rp__cost_dtypes[d]), 1, 1e18, &t->move[rp__cost_dtypes[d]]))
            return "a bandwidth of 'update' is not a number above 0";
    t->move[RP_U8] = RP_COST_CODED_SHARE * t->move[RP_F32];
    if (json_object_get(json_object_get(root, "update"), rp_dtype_name(RP_U8)) &&
        !read_number(json_object_get(root, "update"), rp_dtype_name(RP_U8), 1, 1e18, &t->move[RP_U8]))
        return "a bandwidth of 'update' is not a number above 0";
    if (!read_number(root, "offload", 0, 1e18, &t->offload)) return "'offload' is not a bandwidth";
    if (json_object_get(root, "cache") && !read_number(root, "cache", 0, 1e18, &t->cache)) return "'cache' is not a size";
    return json_object_get(root, "near") && !read_number(root, "near", 1, 1e6, &t->near) ? "'near' is not a number from 1 up" : NULL;
}

/* Returns the index of a text in a list, or -1. */
static int file_find(const json_t *value, const char *(*name)(int), int n)
{
    const char *text = json_string_value(value);

    for (int i = 0; text && i < n; i++)
        if (!strcmp(text, name(i))) return i;
    return -1;
}

static const char *dtype_name(int i) { return rp_dtype_name(rp__cost_dtypes[i]); }
static const char *pass_name(int i) { return rp__cost_pass_names[i]; }

static const char *read_row(const json_t *from, rp_cost_table *t)
{
    int op    = file_find(json_object_get(from, "op"), rp__cost_op_name, rp__op_count() + 1);
    int dtype = file_find(json_object_get(from, "dtype"), dtype_name, RP_COUNT(rp__cost_dtypes));
    int pass  = file_find(json_object_get(from, "pass"), pass_name, RP_COST_PASSES);

    if (!json_is_string(json_object_get(from, "op")) || dtype < 0 || pass < 0) return "a row has no valid op, dtype or pass";
    if (op < 0) return not_ours;
    rp_cost_row *row = rp__cost_row(t, op, rp__cost_dtypes[dtype], (rp_pass)pass);
    if (row->rate > 0) return "a row occurs twice";
    if (!read_number(from, "overhead", 0, 1e6, &row->overhead) || !read_number(from, "rate", 1, 1e24, &row->rate) ||
        !read_number(from, "bandwidth", 1, 1e18, &row->bandwidth))
        return "a number in a row is missing or out of range";
    return NULL;
}

static const char *read_rows(const json_t *root, rp_cost_table *t)
{
    const json_t *rows = json_object_get(root, "rows"), *row;
    const char *wrong  = json_is_array(rows) ? NULL : "it has no rows";
    size_t i;

    json_array_foreach(rows, i, row)
        if (!wrong) wrong = read_row(row, t);
    for (int d = 0; d < RP_COUNT(rp__cost_dtypes) && !wrong; d++)
        for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++)
            if (rp__cost_row(t, rp__op_count(), rp__cost_dtypes[d], pass)->rate <= 0) wrong = "the row of other ops is missing";
    return wrong;
}

static const char *file_read_all(const json_t *root, rp_cost_table *t)
{
    const char *hash = json_string_value(json_object_get(root, "hash")), *wrong = read_head(root, t);
    char found[HEX_CHARS];

    if (!wrong) wrong = read_rows(root, t);
    if (wrong) return wrong;
    rp__cost_machine_name(&t->machine, t->name);
    if (hash && !hash_of(root, found)) return no_memory;
    return hash && !strcmp(hash, found) ? NULL : "it does not match its hash";
}

static bool is_foreign(const json_t *root)
{
    const char *version = json_string_value(json_object_get(root, "reprise"));
    const json_t *format = json_object_get(root, "format");

    return json_is_integer(format) && version && (json_integer_value(format) != FORMAT || strcmp(version, rp_version()));
}

static rp_status damaged(rp_ctx *ctx, const char *path, int line, const char *why)
{
    char where[32] = "";

    if (why == no_memory) return rp_fail(ctx, RP_ERR_MEMORY, "cannot read the cost table '%s': %s", path, why);
    if (line) snprintf(where, sizeof where, "line %d: ", line);
    return rp_fail(ctx, RP_ERR_FORMAT, "the cost table '%s' is damaged: %s%.*s; run 'reprise calibrate' to replace it", path, where,
                   (int)strcspn(why, "\n"), why);
}

rp_status rp__cost_parse(rp_ctx *ctx, const char *path, const char *text, int64_t bytes, bool *foreign, rp_cost_table **out)
{
    rp_cost_table *t = NULL;
    json_error_t e;
    json_t *root = rp__json_read(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &e);

    if (!root) return damaged(ctx, path, e.line, json_error_code(&e) == json_error_out_of_memory ? no_memory : e.text);
    *foreign          = is_foreign(root);
    rp_status status  = *foreign ? RP_OK : rp__cost_table_new(ctx, RP_COST_FULL, &t);
    const char *wrong = t ? file_read_all(root, t) : NULL;
    json_decref(root);
    *foreign = *foreign || wrong == not_ours;
    if (status == RP_OK && !*foreign && !wrong) *out = t;
    else rp__cost_table_free(t);
    return wrong && !*foreign ? damaged(ctx, path, 0, wrong) : status;
}

/* ---- the path ---- */

/* Writes for example "reprise/costs-Intel-Xeon-Processor-6-167-v4-2.json". */
static void file_name(const rp_cost_machine *m, char *out, size_t out_bytes)
{
    int n = snprintf(out, out_bytes, "reprise/");

    snprintf(out + n, out_bytes - (size_t)n, "costs-%s-%s-%d.json", m->cpu, m->level, m->threads);
    for (char *c = out + n; *c; c++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.", *c)) *c = '-';
}

rp_status rp__cost_path(rp_ctx *ctx, const rp_cost_machine *machine, char **path)
{
    const char *chosen = getenv("REPRISE_COSTS"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char name[192], *hidden = NULL;

    *path = NULL;
    file_name(machine, name, sizeof name);
    if (chosen && *chosen) *path = rp__host_text(ctx, chosen);
    else if (cache && *cache == '/') *path = rp__path_join(ctx, cache, name);
    else if (!home || !*home) return RP_OK;
    else if ((hidden = rp__path_join(ctx, ".cache", name))) *path = rp__path_join(ctx, home, hidden);
    rp__release(hidden);
    return *path ? RP_OK : RP_ERR_MEMORY;
}

static rp_status make_folder(rp_ctx *ctx, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder;

    if (!slash || slash == path) return RP_OK;
    if (!(folder = rp__host_text(ctx, path))) return RP_ERR_MEMORY;
    folder[slash - path] = 0;
    rp_status status     = rp__make_dirs(ctx, folder);
    rp__release(folder);
    return status;
}

/* Find the path and create its folder; the caller must rp__release *path. */
static rp_status open_place(rp_ctx *ctx, const rp_cost_machine *machine, char **path)
{
    RP_TRY(rp__cost_path(ctx, machine, path));
    RP_CHECK(ctx, *path, RP_ERR_IO, "there is no place for the cost table: none of REPRISE_COSTS, XDG_CACHE_HOME and HOME is set");
    rp_status status = make_folder(ctx, *path);
    if (status == RP_OK) return RP_OK;
    rp__release(*path);
    return status;
}

rp_status rp__cost_table_place(rp_ctx *ctx)
{
    rp_file_writer *probe;
    rp_cost_machine here;
    char *path;

    rp__cost_machine_find(ctx, &here);
    RP_TRY(open_place(ctx, &here, &path));
    rp_status status = rp__file_create(ctx, path, &probe);
    if (status == RP_OK) rp__file_discard(probe);
    rp__release(path);
    return status;
}

rp_status rp__cost_table_save(rp_ctx *ctx, rp_cost_table *table, const char **path)
{
    char *text = NULL, *to;

    RP_TRY(open_place(ctx, &table->machine, &to));
    rp_status status = rp__cost_text(ctx, table, &text);
    if (status == RP_OK) status = rp__file_write(ctx, to, text, (int64_t)strlen(text));
    rp__release(text);
    if (status != RP_OK) {
        rp__release(to);
        return status;
    }
    rp__release(table->path);
    *path = table->path = to;
    return RP_OK;
}

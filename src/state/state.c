/* state/state.c -- opens states, checks all their bytes and loads them. */
#include "state/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file.h"
#include "optim/optim.h"
#include "safetensors/safetensors.h"
#include "state/parts.h"

enum { WINDOW_BYTES = 1 << 20 };

struct rp_state {
    rp_ctx *ctx;
    char *path;
    rp_state_info info;
    json_t *root;
    int parts;
};

/* ---- one part ---- */

typedef struct {
    rp_ctx *ctx;
    int part;
    char *path;
    rp_safetensors *set;
    int fd;                             /* read in windows; a mapping would count as memory of the process */
} part_file;

static rp_status open_named(const rp_state *s, const char *name, part_file *f)
{
    f->path = rp__path_join(s->ctx, s->path, name);
    if (!f->path) return RP_ERR_MEMORY;
    RP_CHECK(s->ctx, rp__file_exists(f->path), RP_ERR_FORMAT, "the state '%s' is partial: it has no %s", s->path, name);
    RP_TRY(rp__safetensors_open(s->ctx, f->path, &f->set));
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    RP_CHECK(s->ctx, f->fd >= 0, RP_ERR_IO, "cannot open '%s': %s", f->path, strerror(errno));
    return RP_OK;
}

/* Call close_part even if this fails. */
static rp_status open_part(const rp_state *s, int part, part_file *f)
{
    char name[RP_STATE_PART_CHARS];

    *f = (part_file){ .ctx = s->ctx, .part = part, .fd = -1 };
    return open_named(s, rp__state_part_name(part, s->parts, name), f);
}

static void close_part(part_file *f)
{
    if (f->fd >= 0) close(f->fd);
    rp__safetensors_close(f->set);
    rp__release(f->path);
}

static rp_status read_at(const part_file *f, int64_t offset, int64_t bytes, void *to)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(f->fd, (char *)to + done, (size_t)(bytes - done), offset + done);
        if (n < 0 && errno == EINTR) continue;
        RP_CHECK(f->ctx, n >= 0, RP_ERR_IO, "cannot read '%s': %s", f->path, strerror(errno));
        RP_CHECK(f->ctx, n > 0, RP_ERR_FORMAT, "the state file '%s' ends at byte %" PRId64, f->path, offset + done);
        done += n;
    }
    return RP_OK;
}

/* ---- checking ---- */

/* Whether a tensor of the file matches its entry: with one part in shape, else as a row of the slice's elements. */
static bool fits_entry(const rp_safetensor *t, const rp_state_entry *e, int part, int parts)
{
    if (t->dtype != e->dtype || t->elems != rp__state_entry_slice(e, part).count) return false;
    return parts > 1 || (t->ndim == e->ndim && !memcmp(t->dim, e->dim, (size_t)t->ndim * sizeof t->dim[0]));
}

/* Checks a tensor against its own checksum, if it has one, and adds its checksum to that of the part. */
static rp_status check_tensor(const rp_state *s, const part_file *f, const rp_safetensor *t, uint8_t *window, uint64_t *part)
{
    rp_checksum sum = rp__checksum_begin();
    rp_state_entry e;

    RP_CHECK(s->ctx, rp__state_json_tensor(s->root, t->name, &e) && fits_entry(t, &e, f->part, s->parts), RP_ERR_FORMAT,
             "the state '%s' lists no tensor '%s' with the dtype and shape in '%s'", s->path, t->name, f->path);
    for (int64_t at = 0; at < t->bytes; at += WINDOW_BYTES) {
        int64_t bytes = t->bytes - at < WINDOW_BYTES ? t->bytes - at : WINDOW_BYTES;
        RP_TRY(read_at(f, t->offset + at, bytes, window));
        rp__checksum_add(&sum, window, bytes);
    }
    uint64_t found = rp__checksum_end(&sum);
    *part += rp__state_json_mark(t->name, found);
    RP_CHECK(s->ctx, !e.checksums || found == rp__state_entry_checksum(&e, f->part), RP_ERR_FORMAT,
             "the state file '%s' is damaged: the tensor '%s' does not match its checksum", f->path, t->name);
    return RP_OK;
}

static rp_status check_sum(const rp_state *s, const part_file *f, uint64_t found)
{
    uint64_t listed;

    if (!rp__state_json_sums_parts(s->root)) return RP_OK;
    RP_CHECK(s->ctx, rp__state_json_part_checksum(s->root, f->part, &listed), RP_ERR_FORMAT, "the state '%s' has wrong checksums of its parts",
             s->path);
    RP_CHECK(s->ctx, found == listed, RP_ERR_FORMAT, "the state file '%s' is damaged: it does not match its checksum", f->path);
    return RP_OK;
}

static rp_status check_tensors(const rp_state *s, const part_file *f)
{
    int64_t n = rp__safetensors_n_tensors(f->set), listed = (int64_t)json_object_size(json_object_get(s->root, "tensors"));
    uint8_t *window  = rp__host_alloc(s->ctx, WINDOW_BYTES);
    rp_status status = window ? RP_OK : RP_ERR_MEMORY;
    uint64_t sum     = 0;

    if (status == RP_OK && n != listed)
        status = rp_fail(s->ctx, RP_ERR_FORMAT, "the state '%s' lists %" PRId64 " tensors, '%s' holds %" PRId64, s->path, listed, f->path,
                         n);
    for (int64_t i = 0; i < n && status == RP_OK; i++) status = check_tensor(s, f, rp__safetensors_at(f->set, i), window, &sum);
    rp__release(window);
    return status == RP_OK ? check_sum(s, f, sum) : status;
}

static rp_status check_part(const rp_state *s, int part)
{
    part_file f;
    rp_status status = open_part(s, part, &f);

    if (status == RP_OK) status = check_tensors(s, &f);
    close_part(&f);
    return status;
}

/* The files are divided among the ranks, so that each is read once. */
static rp_status check_parts(const rp_state *s)
{
    for (int part = rp__comm_rank(rp__world(s->ctx)); part < s->parts; part += rp__comm_ranks(rp__world(s->ctx))) RP_TRY(check_part(s, part));
    return RP_OK;
}

/* ---- opening ---- */

static rp_status read_json(rp_state *s)
{
    char *path = rp__path_join(s->ctx, s->path, RP_STATE_JSON), *text = NULL;
    int64_t bytes = 0;
    rp_status status = path ? RP_OK : RP_ERR_MEMORY;

    if (status == RP_OK && !rp__file_exists(path))
        status = rp_fail(s->ctx, RP_ERR_FORMAT, "the state '%s' is partial: it has no %s", s->path, RP_STATE_JSON);
    if (status == RP_OK) status = rp__file_read(s->ctx, path, RP_STATE_JSON_BYTES, &text, &bytes);
    if (status == RP_OK) status = rp__state_json_parse(s->ctx, path, text, bytes, &s->root, &s->info);
    RP_RELEASE(text, path);
    return status;
}

/* Format 1 has no shapes in the index; they are taken from the tensors' file. */
static rp_status update_index(rp_state *s)
{
    part_file f;

    if (rp__state_json_has_shapes(s->root)) return RP_OK;
    rp_status status = open_part(s, 0, &f);
    if (status == RP_OK && !rp__state_json_update(s->root, f.set))
        status = rp_fail(s->ctx, RP_ERR_FORMAT, "the state '%s' lists a tensor that '%s' does not hold", s->path, f.path);
    close_part(&f);
    return status;
}

static rp_status open_and_check(rp_state *s, const char *path)
{
    RP_CHECK(s->ctx, rp__file_is_dir(path), RP_ERR_CONFIG, "there is no state at '%s'", path);
    s->path = rp__host_text(s->ctx, path);
    if (!s->path) return RP_ERR_MEMORY;
    RP_TRY(read_json(s));
    s->parts = rp__state_json_parts(s->root);
    RP_TRY(update_index(s));
    return check_parts(s);
}

/* path NULL: it could not be allocated. */
static rp_status open_mine(rp_ctx *ctx, const char *path, rp_state **out)
{
    rp_state *s = path ? rp__host_alloc(ctx, sizeof *s) : NULL;

    if (!s) return RP_ERR_MEMORY;
    *s               = (rp_state){ .ctx = ctx };
    rp_status status = open_and_check(s, path);
    if (status != RP_OK) rp__state_close(s);
    else *out = s;
    return status;
}

static rp_status open_on_all(rp_ctx *ctx, const char *path, rp_state **out)
{
    rp_state *s      = NULL;
    rp_status status = rp__comm_agree(ctx, rp__world(ctx), open_mine(ctx, path, &s));

    if (status != RP_OK) rp__state_close(s);
    else *out = s;
    return status;
}

rp_status rp__state_open(rp_ctx *ctx, const char *path, rp_state **out) { return open_on_all(ctx, path, out); }

/* ---- the newest ---- */

/* Replaces the number by that of the first rank, because file systems may show new folders late on other machines. */
static rp_status as_the_first_says(rp_ctx *ctx, int64_t *number)
{
    int ranks = rp__comm_ranks(rp__world(ctx));

    if (ranks == 1) return RP_OK;
    int64_t *all     = rp__host_alloc(ctx, ranks * (int64_t)sizeof *all);
    rp_status status = rp__comm_agree(ctx, rp__world(ctx), all ? RP_OK : RP_ERR_MEMORY);
    if (status == RP_OK) status = rp__comm_share(ctx, rp__world(ctx), number, sizeof *number, all, "the states there are");
    if (status == RP_OK) *number = all[0];
    rp__release(all);
    return status;
}

/* If a state cannot be read, for any reason but memory or communication, the next older one is tried. `why` is the error of the newest one. */
static rp_status open_newest(rp_ctx *ctx, const char *output_dir, const int64_t *steps, int n, rp_state **out, char why[RP_ERROR_CHARS])
{
    rp_status status = RP_OK;
    rp_state *state  = NULL;

    for (int i = 0; !state && status != RP_ERR_MEMORY && status != RP_ERR_BACKEND; i++) {
        int64_t step    = i < n ? steps[i] : -1;
        rp_status asked = as_the_first_says(ctx, &step);
        if (asked != RP_OK) return asked;
        if (step < 0) break;
        char *path = rp__state_name(ctx, output_dir, "step-#", step);
        status     = open_on_all(ctx, path, &state);
        rp__release(path);
        if (status != RP_OK && !*why) memcpy(why, ctx->error, RP_ERROR_CHARS);
    }
    if (status == RP_OK) *out = state;
    else if (status != RP_ERR_MEMORY && status != RP_ERR_BACKEND) rp_fail(ctx, status, "%s", why);
    return status;
}

rp_status rp__state_open_latest(rp_ctx *ctx, const char *output_dir, rp_state **out, char **note)
{
    int64_t *steps = NULL;
    int n          = 0;
    char why[RP_ERROR_CHARS] = "";
    rp_state *state  = NULL;
    rp_status status = rp__comm_agree(ctx, rp__world(ctx), rp__comm_rank(rp__world(ctx)) == 0 ? rp__state_list(ctx, output_dir, &steps, &n) : RP_OK);

    if (status == RP_OK) status = open_newest(ctx, output_dir, steps, n, &state, why);
    rp__release(steps);
    RP_TRY(status);
    char *text = *why ? rp__host_text(ctx, why) : NULL;
    status     = rp__comm_agree(ctx, rp__world(ctx), text || !*why ? RP_OK : RP_ERR_MEMORY);
    if (status == RP_OK) {
        *out  = state;
        *note = text;
        return RP_OK;
    }
    rp__release(text);
    rp__state_close(state);
    return status;
}

void rp__state_close(rp_state *s)
{
    if (!s) return;
    json_decref(s->root);
    RP_RELEASE(s->path, s);
}

const rp_state_info *rp__state_info(const rp_state *s) { return &s->info; }
const char *rp__state_path(const rp_state *s) { return s->path; }

/* ---- loading ---- */

static rp_status check_fit(const rp_state *s, const rp_state_tensor *want)
{
    const rp_meta *m = rp__state_whole(want);
    rp_state_entry has;

    RP_CHECK(s->ctx, rp__state_json_tensor(s->root, want->name, &has), RP_ERR_CONFIG,
             "the state '%s' has no tensor '%s': it is of another model or optimizer", s->path, want->name);
    RP_CHECK(s->ctx, has.dtype == rp__safetensors_dtype_of(m->dtype), RP_ERR_CONFIG,
             "the state '%s' holds '%s' as %s, this run as %s", s->path, want->name, rp__safetensors_dtype_name(has.dtype),
             rp_dtype_name(m->dtype));
    RP_CHECK(s->ctx, has.ndim == m->ndim && !memcmp(has.dim, m->dim, (size_t)m->ndim * sizeof m->dim[0]), RP_ERR_CONFIG,
             "the state '%s' holds '%s' in another shape than %s", s->path, want->name, rp_meta_str(m));
    return RP_OK;
}

static rp_status check_fits(const rp_state *s, const rp_state_tensor *tensors, int n)
{
    int held = (int)json_object_size(json_object_get(s->root, "tensors"));

    for (int i = 0; i < n; i++) RP_TRY(check_fit(s, &tensors[i]));
    RP_CHECK(s->ctx, held == n, RP_ERR_CONFIG,
             "the state '%s' holds %d tensors, this run has %d: another optimizer or dtype", s->path, held, n);
    return RP_OK;
}

typedef struct { int64_t from, to; } elem_range;

/* Range of elements of the whole tensor that the part holds and the tensor needs; empty if to <= from. */
static elem_range common(const rp_state *s, const rp_state_tensor *t, int part, int64_t *part_first)
{
    rp_slice want = rp__state_slice(t), has;
    rp_state_entry e;

    rp__state_json_tensor(s->root, t->name, &e);
    has         = rp__state_entry_slice(&e, part);
    *part_first = has.first;
    return (elem_range){ want.first > has.first ? want.first : has.first,
                         want.first + want.count < has.first + has.count ? want.first + want.count : has.first + has.count };
}

static bool has_data(const rp_state_tensor *t) { return !t->tensor || t->tensor->storage->data; }

static bool is_wanted(const rp_state *s, const rp_state_tensor *tensors, int n, int part)
{
    int64_t first;

    for (int i = 0; i < n; i++) {
        elem_range r = common(s, &tensors[i], part, &first);
        if (r.from < r.to && has_data(&tensors[i])) return true;
    }
    return false;
}

/* `offset`: file offset of element r.from; `at`: index of that element in the slice. */
static rp_status read_windows(const part_file *f, const rp_state_tensor *t, elem_range r, int64_t offset, int64_t at)
{
    int64_t size = rp_dtype_bytes(t->whole.dtype), count;
    void *data;

    for (int64_t done = 0, left = r.to - r.from; left; done += count, left -= count) {
        RP_TRY(rp__optim_window(t->optim, t->at, at + done, &data, &count));
        if (count > left) count = left;
        RP_TRY(read_at(f, offset + done * size, count * size, data));
        RP_TRY(rp__optim_window_keep(t->optim));
    }
    return RP_OK;
}

static rp_status read_tensor(const rp_state *s, const part_file *f, const rp_state_tensor *t)
{
    const rp_safetensor *has = rp__safetensors_find(f->set, t->name);
    int64_t size = rp_dtype_bytes(rp__state_whole(t)->dtype), first;
    elem_range r = common(s, t, f->part, &first);

    RP_CHECK(s->ctx, has, RP_ERR_FORMAT, "the state file '%s' has no tensor '%s'", f->path, t->name);
    if (r.from >= r.to || !has_data(t)) return RP_OK;
    int64_t offset = has->offset + (r.from - first) * size, at = r.from - rp__state_slice(t).first;
    if (!t->tensor) return read_windows(f, t, r, offset, at);
    rp_host h;
    RP_TRY(rp__tensor_host(t->tensor, at, r.to - r.from, RP_HOST_WRITE, &h));
    rp_status status = read_at(f, offset, (r.to - r.from) * size, h.data);
    rp__tensor_host_end(&h);
    return status;
}

static rp_status read_part(const rp_state *s, const rp_state_tensor *tensors, int n, int part)
{
    part_file f;
    rp_status status = open_part(s, part, &f);

    for (int i = 0; i < n && status == RP_OK; i++) status = read_tensor(s, &f, &tensors[i]);
    close_part(&f);
    return status;
}

static void finish_tensor(const rp_state_tensor *t)
{
    if (!t->tensor) return;
    int64_t size = rp_dtype_bytes(t->tensor->m.dtype), count = rp__state_slice(t).count, rest = rp_meta_elems(&t->tensor->m) - count;

    if (rest && t->tensor->storage->data) rp__mem_fill(t->tensor->ctx, (char *)rp__tensor_data(t->tensor) + count * size, 0, rest * size);
    rp__tensor_wrote(t->tensor, "a state");
}

static rp_status state_load(const rp_state *s, const rp_state_tensor *tensors, int n)
{
    for (int i = 0; i < n; i++) RP_BUG_IF(tensors[i].tensor && !rp_tensor_is_dense(tensors[i].tensor));
    for (int part = 0; part < s->parts; part++)
        if (is_wanted(s, tensors, n, part)) RP_TRY(read_part(s, tensors, n, part));
    for (int i = 0; i < n; i++) finish_tensor(&tensors[i]);
    return RP_OK;
}

rp_status rp__state_load(rp_state *s, const rp_state_tensor *tensors, int n)
{
    RP_TRY(rp__comm_agree(s->ctx, rp__world(s->ctx), check_fits(s, tensors, n)));
    return rp__comm_agree(s->ctx, rp__world(s->ctx), state_load(s, tensors, n));
}

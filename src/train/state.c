/* train/state.c -- states opened, checked byte by byte, and read back. */
#include "train/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file.h"
#include "io/safetensors.h"
#include "train/state_json.h"

enum { WINDOW_BYTES = 1 << 20 };

struct rp_state {
    rp_ctx *ctx;
    char *path, *tensors_path;
    rp_state_info info;
    json_t *root;
    rp_safetensors *set;
    int fd;                             /* of the tensors: read in windows, so that no mapping counts as memory */
};

static rp_status read_at(rp_state *s, int64_t offset, int64_t bytes, void *to)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(s->fd, (char *)to + done, (size_t)(bytes - done), offset + done);
        if (n < 0 && errno == EINTR) continue;
        RP_CHECK(s->ctx, n >= 0, RP_ERR_IO, "cannot read '%s': %s", s->tensors_path, strerror(errno));
        RP_CHECK(s->ctx, n > 0, RP_ERR_FORMAT, "the state file '%s' ends at byte %" PRId64, s->tensors_path, offset + done);
        done += n;
    }
    return RP_OK;
}

/* ---- checking ---- */

static rp_status check_tensor(rp_state *s, const rp_safetensor *t, uint8_t *window)
{
    rp_checksum sum = rp__checksum_begin();
    uint64_t recorded;

    RP_CHECK(s->ctx, rp__state_json_checksum(s->root, t->name, &recorded), RP_ERR_FORMAT,
             "the state '%s' lists no tensor '%s'", s->path, t->name);
    for (int64_t at = 0; at < t->bytes; at += WINDOW_BYTES) {
        int64_t bytes = t->bytes - at < WINDOW_BYTES ? t->bytes - at : WINDOW_BYTES;
        RP_TRY(read_at(s, t->offset + at, bytes, window));
        rp__checksum_add(&sum, window, bytes);
    }
    RP_CHECK(s->ctx, rp__checksum_end(&sum) == recorded, RP_ERR_FORMAT,
             "the state '%s' is damaged: the tensor '%s' does not match its checksum", s->path, t->name);
    return RP_OK;
}

static rp_status check_tensors(rp_state *s)
{
    int64_t n = rp__safetensors_n_tensors(s->set), listed = (int64_t)json_object_size(json_object_get(s->root, "tensors"));
    uint8_t *window = rp__host_alloc(s->ctx, WINDOW_BYTES);
    rp_status status = window ? RP_OK : RP_ERR_MEMORY;

    if (status == RP_OK && n != listed)
        status = rp__fail(s->ctx, RP_ERR_FORMAT, "the state '%s' lists %" PRId64 " tensors and holds %" PRId64, s->path,
                          listed, n);
    for (int64_t i = 0; i < n && status == RP_OK; i++) status = check_tensor(s, rp__safetensors_at(s->set, i), window);
    rp__release(window);
    return status;
}

static rp_status read_json(rp_state *s)
{
    char *path = rp__path_join(s->ctx, s->path, RP_STATE_JSON), *text = NULL;
    int64_t bytes = 0;
    rp_status status = path ? RP_OK : RP_ERR_MEMORY;

    if (status == RP_OK && !rp__file_exists(path))
        status = rp__fail(s->ctx, RP_ERR_FORMAT, "the state '%s' is partial: it has no %s", s->path, RP_STATE_JSON);
    if (status == RP_OK) status = rp__file_read(s->ctx, path, RP_STATE_JSON_BYTES, &text, &bytes);
    if (status == RP_OK) status = rp__state_json_parse(s->ctx, path, text, bytes, &s->root, &s->info);
    rp__release(text);
    rp__release(path);
    return status;
}

static rp_status open_and_check(rp_state *s, const char *path)
{
    RP_CHECK(s->ctx, rp__file_is_dir(path), RP_ERR_CONFIG, "there is no state at '%s'", path);
    s->path         = rp__host_text(s->ctx, path);
    s->tensors_path = s->path ? rp__path_join(s->ctx, path, RP_STATE_TENSORS) : NULL;
    if (!s->tensors_path) return RP_ERR_MEMORY;
    RP_TRY(read_json(s));
    RP_CHECK(s->ctx, rp__file_exists(s->tensors_path), RP_ERR_FORMAT, "the state '%s' is partial: it has no %s", path,
             RP_STATE_TENSORS);
    RP_TRY(rp__safetensors_open(s->ctx, s->tensors_path, &s->set));
    s->fd = open(s->tensors_path, O_RDONLY | O_CLOEXEC);
    RP_CHECK(s->ctx, s->fd >= 0, RP_ERR_IO, "cannot open '%s': %s", s->tensors_path, strerror(errno));
    return check_tensors(s);
}

rp_status rp__state_open(rp_ctx *ctx, const char *path, rp_state **out)
{
    rp_state *s = rp__host_alloc(ctx, sizeof *s);

    if (!s) return RP_ERR_MEMORY;
    *s               = (rp_state){ .ctx = ctx, .fd = -1 };
    rp_status status = open_and_check(s, path);
    if (status != RP_OK) rp__state_close(s);
    else *out = s;
    return status;
}

/* A state that cannot be read, for whatever reason but memory, sends us to the one before; the newest's reason is told. */
static rp_status open_newest(rp_ctx *ctx, const char *output_dir, const int64_t *steps, int n, rp_state **out, char **note)
{
    rp_status status = RP_OK;
    char *why        = NULL;
    rp_state *state  = NULL;

    for (int i = 0; i < n && !state; i++) {
        char *path = rp__state_name(ctx, output_dir, "step-#", steps[i]);
        status     = path ? rp__state_open(ctx, path, &state) : RP_ERR_MEMORY;
        rp__release(path);
        if (status == RP_ERR_MEMORY) break;
        if (status != RP_OK && !why && !(why = rp__host_text(ctx, ctx->error))) status = RP_ERR_MEMORY;
        if (status == RP_ERR_MEMORY) break;
    }
    if (status == RP_OK) {
        *out  = state;
        *note = why;
        return RP_OK;
    }
    if (status != RP_ERR_MEMORY) rp__fail(ctx, status, "%s", why);
    rp__release(why);
    return status;
}

rp_status rp__state_open_latest(rp_ctx *ctx, const char *output_dir, rp_state **out, char **note)
{
    int64_t *steps;
    int n;

    RP_TRY(rp__state_list(ctx, output_dir, &steps, &n));
    rp_status status = open_newest(ctx, output_dir, steps, n, out, note);
    rp__release(steps);
    return status;
}

void rp__state_close(rp_state *s)
{
    if (!s) return;
    if (s->fd >= 0) close(s->fd);
    rp__safetensors_close(s->set);
    json_decref(s->root);
    rp__release(s->tensors_path);
    rp__release(s->path);
    rp__release(s);
}

const rp_state_info *rp__state_info(const rp_state *s) { return &s->info; }
const char *rp__state_path(const rp_state *s) { return s->path; }

/* ---- loading ---- */

static rp_status check_fit(const rp_state *s, const rp_state_tensor *want)
{
    const rp_safetensor *has = rp__safetensors_find(s->set, want->name);
    const rp_meta *m         = &want->tensor->m;

    RP_CHECK(s->ctx, has, RP_ERR_CONFIG, "the state '%s' has no tensor '%s': it is of another model or optimizer", s->path,
             want->name);
    RP_CHECK(s->ctx, has->dtype == rp__safetensors_dtype_of(m->dtype), RP_ERR_CONFIG,
             "the state '%s' holds '%s' as %s, this run as %s", s->path, want->name, rp__safetensors_dtype_name(has->dtype),
             rp_dtype_name(m->dtype));
    RP_CHECK(s->ctx, has->ndim == m->ndim && !memcmp(has->dim, m->dim, (size_t)m->ndim * sizeof m->dim[0]), RP_ERR_CONFIG,
             "the state '%s' holds '%s' in another shape than %s", s->path, want->name, rp_meta_str(m));
    return RP_OK;
}

rp_status rp__state_load(rp_state *s, const rp_state_tensor *tensors, int n)
{
    int64_t held = rp__safetensors_n_tensors(s->set);

    for (int i = 0; i < n; i++) RP_TRY(check_fit(s, &tensors[i]));
    RP_CHECK(s->ctx, held == n, RP_ERR_CONFIG,
             "the state '%s' holds %" PRId64 " tensors, this run has %d: another optimizer or dtype", s->path, held, n);
    for (int i = 0; i < n; i++) {
        const rp_safetensor *has = rp__safetensors_find(s->set, tensors[i].name);
        RP_BUG_IF(!rp_tensor_is_dense(tensors[i].tensor));
        if (tensors[i].tensor->storage->data) RP_TRY(read_at(s, has->offset, has->bytes, rp_tensor_data(tensors[i].tensor)));
        rp__tensor_wrote(tensors[i].tensor, "a state");
    }
    return RP_OK;
}

/* data/files.c -- expands paths, folders and globs to a list of files; see files.h. */
#include "data/files.h"

#include <errno.h>
#include <fnmatch.h>
#include <fts.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/list.h"

typedef struct {
    rp_ctx *ctx;
    char key[64];                       /* "dataset.path: ", before a message; may be empty */
    const char *format, *extensions;
    rp_data_files *files;
} search;

static const struct { const char *name, *extensions; } formats[] = {
#define RP_DATA_FORMAT(name, extensions) { #name, extensions },
#include "data/formats.def"
#undef RP_DATA_FORMAT
};

/* ---- the list ---- */

static rp_status files_add(const search *s, const char *path)
{
    rp_data_files *f = s->files;
    struct stat info;

    RP_CHECK(s->ctx, !stat(path, &info), RP_ERR_CONFIG, "cannot open '%s': %s", path, strerror(errno));
    RP_TRY(RP_GROW(s->ctx, f->path, f->room, f->n + 1));
    char *own = rp__host_text(s->ctx, path);
    if (!own) return RP_ERR_MEMORY;
    f->path[f->n++] = own;
    f->bytes += S_ISREG(info.st_mode) ? info.st_size : 0;
    return RP_OK;
}

void rp__data_files_free(rp_data_files *files)
{
    for (int64_t i = 0; i < files->n; i++) rp__release(files->path[i]);
    rp__release(files->path);
    *files = (rp_data_files){ 0 };
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void sort_from(const rp_data_files *f, int64_t first)
{
    if (f->n - first > 1) qsort(f->path + first, (size_t)(f->n - first), sizeof *f->path, by_bytes);
}

/* ---- names ---- */

static int64_t without(const char *path, int64_t n, const char *end)
{
    int64_t m = (int64_t)strlen(end);

    return n > m && !strncasecmp(path + n - m, end, (size_t)m) ? n - m : n;
}

static bool has_extension(const char *path, const char *extensions)
{
    int64_t n = without(path, without(path, (int64_t)strlen(path), ".gz"), ".zst");
    char each[16];

    for (const char *p = extensions; *p; p += strspn(p, " ")) {
        int chars = (int)strcspn(p, " ");
        snprintf(each, sizeof each, "%.*s", chars, p);
        if (without(path, n, each) < n) return true;
        p += chars;
    }
    return false;
}

static size_t component(const char *path) { return strcspn(path, "/"); }

static const char *behind(const char *path)
{
    path += component(path);
    return path + strspn(path, "/");
}

static bool is_two_stars(const char *pattern) { return component(pattern) == 2 && !strncmp(pattern, "**", 2); }

static bool component_matches(const char *pattern, const char *path)
{
    char one[256], other[256];

    if (component(pattern) >= sizeof one || component(path) >= sizeof other) return false;
    snprintf(one, sizeof one, "%.*s", (int)component(pattern), pattern);
    snprintf(other, sizeof other, "%.*s", (int)component(path), path);
    return !fnmatch(one, other, FNM_PERIOD);
}

/* Matches component by component. After two stars the rest may begin at any component. On a mismatch, matching resumes one component after the
 * last two stars, so the time is at most the product of both lengths. */
static bool matches(const char *pattern, const char *path)
{
    const char *again = NULL, *from = NULL;

    while (*path) {
        if (is_two_stars(pattern)) {
            again = pattern = behind(pattern);
            from            = path;
            if (!*pattern) return true;
        } else if (*pattern && component_matches(pattern, path)) {
            pattern = behind(pattern);
            path    = behind(path);
        } else {
            if (!again) return false;
            pattern = again;
            path = from = behind(from);
        }
    }
    return !*pattern;
}

/* ---- folders ---- */

/* Adds a file of a folder if its extension or the pattern matches. A dangling link is added too, so that opening it reports the error. */
static rp_status take_entry(const search *s, FTS *tree, FTSENT *e, const char *pattern)
{
    const char *path = e->fts_path;
    bool file        = e->fts_info == FTS_F || e->fts_info == FTS_SLNONE;

    if (e->fts_level > 0 && e->fts_name[0] == '.') {
        fts_set(tree, e, FTS_SKIP);
        return RP_OK;
    }
    RP_CHECK(s->ctx, e->fts_info != FTS_DNR && e->fts_info != FTS_ERR && e->fts_info != FTS_NS, RP_ERR_IO, "cannot read '%s': %s", path,
             strerror(e->fts_errno));
    if (!strncmp(path, "./", 2)) path += 2;
    if (!file || !(pattern ? matches(pattern, path) : has_extension(path, s->extensions))) return RP_OK;
    return files_add(s, path);
}

static rp_status walk(const search *s, const char *folder, const char *pattern)
{
    char *roots[]    = { (char *)folder, NULL };
    int64_t first    = s->files->n;
    rp_status status = RP_OK;
    FTSENT *e;

    FTS *tree = rp__fault_fires(s->ctx) ? NULL : fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    RP_CHECK(s->ctx, tree, RP_ERR_MEMORY, "cannot list '%s': memory ran out", folder);
    while (status == RP_OK && (errno = 0, e = fts_read(tree))) status = take_entry(s, tree, e, pattern);
    if (status == RP_OK && errno) status = rp_fail(s->ctx, RP_ERR_IO, "cannot read '%s': %s", folder, strerror(errno));
    fts_close(tree);
    sort_from(s->files, first);
    return status;
}

static rp_status take_folder(const search *s, const char *folder)
{
    int64_t before = s->files->n;
    size_t n       = strlen(folder);

    RP_TRY(walk(s, folder, NULL));
    RP_CHECK(s->ctx, s->files->n > before, RP_ERR_MATCH, "%sno file in the folder '%s' ends in one of %s (with or without .gz or .zst), which format %s "
             "reads; for other files use a glob, such as '%s%s**/*.c'", s->key, folder, s->extensions, s->format, folder, n && folder[n - 1] == '/' ? "" : "/");
    return RP_OK;
}

/* ---- globs ---- */

/* Walks all folders below the leading components that have no wildcard. */
static rp_status take_deep(const search *s, const char *pattern)
{
    const char *rest = pattern;
    size_t n;

    while (*rest && strcspn(rest, "*?[") >= component(rest)) rest = behind(rest);
    n          = (size_t)(rest - pattern);
    char *base = rp__host_text(s->ctx, n ? pattern : ".");
    if (!base) return RP_ERR_MEMORY;
    if (n) base[n > 1 && strspn(pattern, "/") < n ? n - 1 : n] = 0;
    struct stat info;
    rp_status status = stat(base, &info) ? RP_OK : walk(s, base, pattern[0] == '/' ? pattern : strncmp(pattern, "./", 2) ? pattern : pattern + 2);
    rp__release(base);
    return status;
}

static rp_status take_existing(const search *s, const char *path)
{
    struct stat info;
    bool folder = !stat(path, &info) && S_ISDIR(info.st_mode);

    return folder ? take_folder(s, path) : files_add(s, path);
}

static rp_status take_glob(const search *s, const char *pattern)
{
    glob_t g         = { 0 };
    int failed       = glob(pattern, GLOB_NOSORT, NULL, &g);
    rp_status status = RP_OK;

    if (failed == GLOB_NOSPACE) status = rp_fail(s->ctx, RP_ERR_MEMORY, "cannot list '%s': memory ran out", pattern);
    if (!failed) qsort(g.gl_pathv, g.gl_pathc, sizeof g.gl_pathv[0], by_bytes);
    for (size_t i = 0; i < g.gl_pathc && status == RP_OK && !failed; i++) status = take_existing(s, g.gl_pathv[i]);
    globfree(&g);
    return status;
}

static bool is_deep(const char *path)
{
    for (; *path; path = behind(path))
        if (is_two_stars(path)) return true;
    return false;
}

static rp_status take_path(const search *s, const char *path)
{
    int64_t before = s->files->n;
    struct stat info;

    if (!stat(path, &info)) return take_existing(s, path);
    RP_TRY(is_deep(path) ? take_deep(s, path) : take_glob(s, path));
    RP_CHECK(s->ctx, s->files->n > before, RP_ERR_MATCH, "%sno file matches '%s'", s->key, path);
    return RP_OK;
}

rp_status rp__data_files(rp_ctx *ctx, const char *key, const rp_data_config *c, rp_data_files *out)
{
    search s = { .ctx = ctx, .format = c->format, .extensions = "", .files = out };

    *out = (rp_data_files){ 0 };
    if (key) snprintf(s.key, sizeof s.key, "%s.path: ", key);
    for (int i = 0; i < RP_COUNT(formats); i++)
        if (!strcmp(formats[i].name, c->format)) s.extensions = formats[i].extensions;
    for (int i = 0; i < c->n_paths; i++) RP_TRY(take_path(&s, c->paths[i]));
    return c->n_paths ? RP_OK : take_path(&s, c->path);
}

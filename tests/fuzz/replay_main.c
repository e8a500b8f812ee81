/* replay_main.c -- runs a fuzz target over every member of a corpus, or every file of a folder, in bytewise order:
 * `replay_x CORPUS.tar|FOLDER|FILE …`.
 *
 * Each input is a copy of exactly its size, so that a sanitizer sees reads past its end. A corpus or folder without inputs fails: it would
 * prove nothing. With REPRISE_FUZZ_NAMES=1 the name of each input is printed before it runs, so the last name is the input that crashed.
 */
#include <dirent.h>
#include <stdio.h>

#include "base/file.h"
#include "fuzz.h"
#include "tar.h"

static void replay(const char *name, const void *data, size_t size)
{
    uint8_t *exact = malloc(size + !size);

    FUZZ_CHECK(exact);
    if (getenv("REPRISE_FUZZ_NAMES")) fprintf(stderr, "%s\n", name);
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static char *read_all(rp_ctx *ctx, const char *path, size_t *size)
{
    char *text    = NULL;
    int64_t bytes = 0;

    if (rp__file_read(ctx, path, INT64_C(1) << 30, &text, &bytes) != RP_OK) {
        fprintf(stderr, "%s\n", rp_error(ctx));
        exit(1);
    }
    *size = (size_t)bytes;
    return text;
}

static int replay_file(rp_ctx *ctx, const char *path)
{
    size_t size;
    char *text = read_all(ctx, path, &size);

    replay(path, text, size);
    rp__release(text);
    return 1;
}

static int replay_archive(rp_ctx *ctx, const char *path)
{
    size_t size;
    char *text = read_all(ctx, path, &size);
    tar_walk w = { .at = (const uint8_t *)text, .end = (const uint8_t *)text + size };
    int n      = 0;

    for (; tar_next(&w); n++) replay(w.name, w.data, w.size);
    if (w.error) {
        fprintf(stderr, "%s, after %d members: %s\n", path, n, w.error);
        exit(1);
    }
    rp__release(text);
    return n;
}

static int is_input(const struct dirent *entry) { return entry->d_name[0] != '.'; }
static int bytewise(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static int replay_folder(rp_ctx *ctx, const char *folder)
{
    struct dirent **entry = NULL;
    int n                 = scandir(folder, &entry, is_input, bytewise);

    for (int i = 0; i < n; i++) {
        char *path = rp__path_join(ctx, folder, entry[i]->d_name);
        FUZZ_CHECK(path);
        replay_file(ctx, path);
        rp__release(path);
        free(entry[i]);
    }
    free(entry);
    return n > 0 ? n : 0;
}

int main(int argc, char **argv)
{
    rp_ctx *ctx;
    int n = 0;

    FUZZ_CHECK(rp_ctx_new(&(rp_ctx_options){ .threads = 1 }, &ctx) == RP_OK);
    for (int i = 1; i < argc; i++) {
        if (rp__file_is_dir(argv[i])) n += replay_folder(ctx, argv[i]);
        else if (rp__ends_with(argv[i], ".tar")) n += replay_archive(ctx, argv[i]);
        else n += replay_file(ctx, argv[i]);
    }
    rp_ctx_free(ctx);
    printf("%d inputs\n", n);
    return n == 0;
}

/* replay_main.c -- runs a fuzz target over every file of a folder, in bytewise order: `replay_x FOLDER|FILE …`.
 *
 * Each input is a copy of exactly its size, so that a sanitizer sees reads past its end. A folder without files fails: it would
 * prove nothing.
 */
#include <dirent.h>
#include <stdio.h>

#include "base/file.h"
#include "fuzz.h"

static void replay(rp_ctx *ctx, const char *path)
{
    char *text    = NULL;
    int64_t bytes = 0;

    if (rp__file_read(ctx, path, INT64_C(1) << 30, &text, &bytes) != RP_OK) {
        fprintf(stderr, "%s\n", rp_error(ctx));
        exit(1);
    }
    uint8_t *exact = malloc((size_t)bytes + !bytes);
    FUZZ_CHECK(exact);
    memcpy(exact, text, (size_t)bytes);
    rp__release(text);
    LLVMFuzzerTestOneInput(exact, (size_t)bytes);
    free(exact);
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
        replay(ctx, path);
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
        if (rp__file_is_dir(argv[i])) {
            n += replay_folder(ctx, argv[i]);
        } else {
            replay(ctx, argv[i]);
            n++;
        }
    }
    rp_ctx_free(ctx);
    printf("%d inputs\n", n);
    return n == 0;
}

/* replay.c -- a fuzz target without a fuzzer: runs each file of the named folders through it once, in the order of names.
 *
 * The corpus of every target is a test of every build this way, sanitizers included; libFuzzer's own main takes its place in
 * the fuzz preset. Exit 1 when a file cannot be read or there is none.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* The target gets a block of exactly the file's size, so that a sanitizer sees a read past its end. */
static int run_file(const char *path)
{
    FILE *f       = fopen(path, "rb");
    uint8_t *data = NULL;
    long bytes    = -1;
    int failed    = 1;

    if (f && !fseek(f, 0, SEEK_END) && (bytes = ftell(f)) >= 0 && !fseek(f, 0, SEEK_SET)) data = malloc((size_t)bytes + (bytes == 0));
    if (data && fread(data, 1, (size_t)bytes, f) == (size_t)bytes) {
        LLVMFuzzerTestOneInput(data, (size_t)bytes);
        failed = 0;
    }
    if (failed) fprintf(stderr, "cannot read '%s'\n", path);
    free(data);
    if (f) fclose(f);
    return failed;
}

int main(int argc, char **argv)
{
    int n_files = 0, n_failed = 0;

    for (int i = 1; i < argc; i++) {
        struct dirent **entry;
        int n = scandir(argv[i], &entry, is_visible, alphasort);
        if (n < 0) perror(argv[i]);
        for (int k = 0; k < n; k++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], entry[k]->d_name);
            n_failed += run_file(path);
            n_files++;
            free(entry[k]);
        }
        if (n >= 0) free(entry);
    }
    printf("%d files\n", n_files);
    return n_failed || !n_files;
}

/* Texts encoded for tools/check_vocabularies.py: a tokenizer as argument, texts as lines of hexadecimal digits in; lines of ids and the digits of
 * the text that they decode to, with special tokens and without, out. A second argument is a folder to export the tokenizer to. */
#include <stdio.h>
#include <stdlib.h>

#include "tokenizer/tokenizer.h"

static int64_t from_digits(char *line, ssize_t n)
{
    int64_t bytes = 0;

    for (ssize_t i = 0; i + 1 < n; i += 2) line[bytes++] = (char)strtol((char[]){ line[i], line[i + 1], 0 }, NULL, 16);
    return bytes;
}

static rp_status print_decoded(rp_tokenizer *t, const int32_t *ids, int64_t n, bool skip_special)
{
    char *text    = NULL;
    int64_t bytes = 0;

    RP_TRY(rp__tokenizer_decode(t, ids, n, skip_special, &text, &bytes));
    putchar('\t');
    for (int64_t i = 0; i < bytes; i++) printf("%02x", (uint8_t)text[i]);
    rp__release(text);
    return RP_OK;
}

static rp_status one(rp_tokenizer *t, const char *text, int64_t bytes)
{
    int32_t *ids = NULL;
    int64_t n    = 0;

    RP_TRY(rp__tokenizer_encode(t, text, bytes, &ids, &n));
    for (int64_t i = 0; i < n; i++) printf("%s%d", i ? " " : "", ids[i]);
    rp_status status = print_decoded(t, ids, n, false);
    if (status == RP_OK) status = print_decoded(t, ids, n, true);
    putchar('\n');
    rp__release(ids);
    return status;
}

static rp_status all(rp_ctx *ctx, const char *path, const char *folder)
{
    rp_tokenizer *t = NULL;
    char *line      = NULL;
    size_t room     = 0;
    ssize_t n;
    rp_status status = rp__tokenizer_load(ctx, path, &t);

    if (status == RP_OK && folder) status = rp__tokenizer_export(t, folder);
    while (status == RP_OK && (n = getline(&line, &room, stdin)) > 0) status = one(t, line, from_digits(line, n - 1));
    free(line);
    rp__tokenizer_free(t);
    return status;
}

int main(int argc, char **argv)
{
    rp_ctx *ctx;

    if (argc < 2 || rp_ctx_new(&(rp_ctx_options){ .threads = 1 }, &ctx) != RP_OK) return 2;
    rp_status status = all(ctx, argv[1], argv[2]);
    if (status != RP_OK) fprintf(stderr, "%s\n", rp_error(ctx));
    rp_ctx_free(ctx);
    return status != RP_OK;
}

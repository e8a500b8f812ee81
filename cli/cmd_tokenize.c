/* cli/cmd_tokenize.c -- all of stdin as one document, its token ids on stdout: one a line, or one JSON array. */
#include "cli/cli.h"

#include <errno.h>

#include "io/tokenizer.h"

typedef struct { bool json; } tokenize_fields;

static rp_status read_stdin(rp_ctx *ctx, char **text, int64_t *bytes)
{
    int64_t size = 1 << 16, used = 0;
    char *buffer = rp__host_alloc(ctx, size);

    while (buffer) {
        used += (int64_t)fread(buffer + used, 1, (size_t)(size - used), stdin);
        if (used < size) break;
        char *wider = rp__host_grow(ctx, buffer, size, 2 * size);
        if (!wider) rp__release(buffer);
        buffer = wider;
        size *= 2;
    }
    if (!buffer) return RP_ERR_MEMORY;
    if (ferror(stdin)) {
        rp__release(buffer);
        return rp__fail(ctx, RP_ERR_IO, "cannot read the standard input: %s", strerror(errno));
    }
    *text  = buffer;
    *bytes = used;
    return RP_OK;
}

static void print_ids(const int32_t *ids, int64_t n_ids, bool json)
{
    if (json) putchar('[');
    for (int64_t i = 0; i < n_ids; i++) printf("%s%" PRId32 "%s", json && i ? ", " : "", ids[i], json ? "" : "\n");
    if (json) printf("]\n");
}

static rp_status tokenize_stdin(cli *c, const char *model, bool json)
{
    rp_tokenizer *tokenizer = NULL;
    char *text              = NULL;
    int32_t *ids            = NULL;
    int64_t bytes = 0, n_ids = 0;
    rp_status status;

    RP_TRY_GOTO(rp__tokenizer_load(c->ctx, model, &tokenizer));
    RP_TRY_GOTO(read_stdin(c->ctx, &text, &bytes));
    RP_TRY_GOTO(rp__tokenizer_encode(tokenizer, text, bytes, &ids, &n_ids));
    print_ids(ids, n_ids, json);
done:
    rp__release(ids);
    rp__release(text);
    rp__tokenizer_free(tokenizer);
    return status;
}

static int tokenize(cli *c, const void *given, const cli_args *args)
{
    const tokenize_fields *fields = given;
    int code                      = cli_find_input(c, args->word[0]);

    if (code != CLI_GO) return code;
    rp_status status = tokenize_stdin(c, args->word[0], fields->json);
    return status == RP_OK ? cli_finish(c, 0) : cli_fail(c, status);
}

static const cli_option options[] = {
    { "json", 0, CLI_FLAG, offsetof(tokenize_fields, json), NULL, "print one JSON array", 0, 0 },
};

const cli_command cmd_tokenize = {
    .usage = "MODEL < text",
    .about = "Print the token ids of a text, one a line. All of the standard input is one document; neither bos nor eos is\n"
             "added. MODEL is a Hugging Face folder, a tokenizer.json, a tokenizer.model or a .gguf file.",
    CLI_OPTIONS(tokenize_fields, options),
    .least_words = 1, .most_words = 1,
    .run = tokenize,
};

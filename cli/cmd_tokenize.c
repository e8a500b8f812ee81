/* cli/cmd_tokenize.c -- tokenize: print the token ids of stdin, which is one document: one a line, or one JSON array. */
#include "cli/cli.h"

#include "text/file.h"
#include "tokenizer/text_ids.h"

typedef struct { bool json; } tokenize_fields;

typedef struct { bool json, any; } printer;

static rp_status print_ids(void *user, const int32_t *ids, int64_t n_ids)
{
    printer *p = user;

    for (int64_t i = 0; i < n_ids; i++) {
        printf("%s%" PRId32 "%s", p->json && p->any ? ", " : "", ids[i], p->json ? "" : "\n");
        p->any = true;
    }
    return RP_OK;
}

static rp_status tokenize_stdin(cli *c, rp_tokenizer *tokenizer, bool json)
{
    rp_text_file *text = NULL;

    RP_TRY(rp__text_file_stdin(c->ctx, &text));
    if (json) putchar('[');
    rp_status status = rp__text_ids(c->ctx, text, rp__text_ids_feed, tokenizer, print_ids, &(printer){ json, false });
    if (status == RP_OK && json) printf("]\n");
    rp__text_file_close(text);
    return status;
}

static int tokenize(cli *c, const void *given, const cli_args *args)
{
    const tokenize_fields *fields = given;
    rp_tokenizer *tokenizer       = NULL;
    int code                      = cli_find_model(c, args->word[0]);

    if (code != CLI_GO) return code;
    rp_status status = rp__tokenizer_load(c->ctx, args->word[0], &tokenizer);
    if (status != RP_OK) return cli_fail_input(c, status);
    status = tokenize_stdin(c, tokenizer, fields->json);
    rp__tokenizer_free(tokenizer);
    return cli_finish(c, status);
}

static const cli_option options[] = {
    { "json", 0, CLI_FLAG, offsetof(tokenize_fields, json), NULL, "print one JSON array", 0, 0 },
};

const cli_command cmd_tokenize = {
    .usage = "MODEL < text",
    .about = "Print the token ids of a text, one a line. The whole standard input, plain or packed with gzip or zstd, is one document;\n"
             "neither bos nor eos is added. MODEL is a Hugging Face folder, a tokenizer.json, a tokenizer.model or a .gguf file.",
    .example = "reprise tokenize models/SmolLM2-135M < text.txt",
    CLI_OPTIONS(tokenize_fields, options),
    .least_words = 1, .most_words = 1,
    .run = tokenize,
};

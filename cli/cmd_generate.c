/* cli/cmd_generate.c -- generate: continue a prompt and print each token at once.
 *
 * A token may end inside a character. Only whole characters are printed; the remaining bytes wait for the next token. */
#include "cli/cli.h"

#include <unistd.h>
#include <utf8proc.h>

#include "models/generate.h"
#include "models/model.h"

typedef struct {
    const char *prompt;
    int64_t max_new_tokens, top_k, seed;
    double temperature;
    bool chat;
} generate_fields;

typedef struct {
    cli_model *m;
    rp_decode_stream stream;
    char waiting[8];                            /* an incomplete character */
    int64_t n_waiting, n_tokens;
    rp_status status;
} writer;

/* ---- writing ---- */

/* The length of the text without an incomplete character at its end. */
static int64_t whole_bytes(const char *text, int64_t bytes)
{
    for (int64_t back = 1; back <= 3 && back <= bytes; back++) {
        unsigned char b = (unsigned char)text[bytes - back];
        if ((b & 0xc0) == 0x80) continue;
        int64_t length = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc0 ? 2 : 1;
        return length > back ? bytes - back : bytes;
    }
    return bytes;
}

/* Each byte that is not UTF-8 is printed as U+FFFD. */
static void write_text(const char *text, int64_t bytes)
{
    utf8proc_int32_t point;

    for (int64_t at = 0; at < bytes;) {
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + at, bytes - at, &point);
        if (n > 0) fwrite(text + at, 1, (size_t)n, stdout);
        else fputs("\xef\xbf\xbd", stdout);
        at += n > 0 ? n : 1;
    }
}

static rp_status write_token(writer *w, int32_t id)
{
    char *text    = NULL;
    int64_t bytes = 0;

    RP_TRY(rp__decode_stream_next(&w->stream, id, &text, &bytes));
    char *all = rp__host_alloc(w->m->run.ctx, w->n_waiting + bytes + 1);
    if (all) {
        memcpy(all, w->waiting, (size_t)w->n_waiting);
        memcpy(all + w->n_waiting, text, (size_t)bytes);
        bytes += w->n_waiting;
        int64_t whole = whole_bytes(all, bytes);
        write_text(all, whole);
        w->n_waiting = bytes - whole;
        memcpy(w->waiting, all + whole, (size_t)w->n_waiting);
    }
    rp__release(all);
    rp__release(text);
    return all ? RP_OK : RP_ERR_MEMORY;
}

/* Prints nothing for an id that the tokenizer does not have: vocabularies are often padded. */
static bool take_token(void *user, int32_t id)
{
    writer *w = user;

    w->n_tokens++;
    if (id < rp__tokenizer_vocab(w->m->tokenizer)) w->status = write_token(w, id);
    return w->status == RP_OK && !fflush(stdout) && !ferror(stdout);
}

/* ---- the prompt ---- */

/* Put bos first if the tokenizer adds it or the prompt is empty. A bos outside the vocabulary of the model is not used. */
static rp_status encode_text(cli_model *m, const char *prompt, int32_t **out, int64_t *n_out)
{
    rp_ctx *ctx  = m->run.ctx;
    int32_t *ids = NULL, bos = rp__tokenizer_bos(m->tokenizer);
    int64_t n    = 0;

    RP_TRY(cli_model_encode(m, prompt, (int64_t)strlen(prompt), &ids, &n));
    bool begins      = bos >= 0 && bos < m->config.vocab && (n == 0 || rp__tokenizer_adds_bos(m->tokenizer));
    int32_t *with    = rp__host_alloc(ctx, (n + 1) * (int64_t)sizeof *with);
    rp_status status = with ? RP_OK : RP_ERR_MEMORY;
    if (with && n + begins == 0) status = rp_fail(ctx, RP_ERR_ARG, "the prompt is empty and the tokenizer has no bos to begin with");
    if (status == RP_OK) {
        if (begins) with[0] = bos;
        if (n) memcpy(with + begins, ids, (size_t)n * sizeof *with);
        *out   = with;
        *n_out = n + begins;
    } else rp__release(with);
    rp__release(ids);
    return status;
}

/* bos is not added to a chat: its template writes bos. */
static rp_status encode_prompt(cli_model *m, const char *path, const generate_fields *fields, int32_t **out, int64_t *n_out)
{
    char *text = NULL;

    if (!fields->chat) return encode_text(m, fields->prompt, out, n_out);
    RP_TRY(cli_model_ask(m, path, fields->prompt, &text));
    rp_status status = cli_model_encode(m, text, (int64_t)strlen(text), out, n_out);
    if (status == RP_OK && !*n_out) status = rp_fail(m->run.ctx, RP_ERR_ARG, "the chat template writes nothing");
    rp__release(text);
    return status;
}

/* ---- the command ---- */

static int end(writer *w, rp_generate_end why, double seconds)
{
    const cli *c = &w->m->run;

    write_text(w->waiting, w->n_waiting);
    cli_print_raw(false);
    putchar('\n');
    int code = cli_finish(c, RP_OK);
    if (why == RP_GENERATED_CONTEXT)
        cli_say(c, "stopped: the model's context of %" PRId64 " tokens is full", rp__model_config(w->m->model)->context);
    if (isatty(2)) cli_say(c, "%" PRId64 " tokens, %.1f a second", w->n_tokens, (double)w->n_tokens / seconds);
    return code;
}

static int go_on(cli_model *m, const char *path, const generate_fields *fields)
{
    int32_t stop[2] = { rp__tokenizer_eos(m->tokenizer), m->config.eos }, *ids = NULL;
    rp_generate_options options = { .max_new_tokens = fields->max_new_tokens, .temperature = fields->temperature,
                                    .top_k = fields->top_k, .seed = (uint64_t)fields->seed, .stop = stop, .n_stop = 2 };
    writer w        = { .m = m };
    int64_t n_ids   = 0;
    rp_generate_end why;

    rp_status status = encode_prompt(m, path, fields, &ids, &n_ids);
    if (status != RP_OK) return cli_fail(&m->run, status);
    int code = cli_model_load(m);
    if (code == CLI_GO) {
        double start = rp__seconds();
        status       = rp__decode_stream_begin(m->tokenizer, ids, n_ids, &w.stream);
        cli_print_raw(!isatty(STDOUT_FILENO));
        if (status == RP_OK) status = rp__generate(m->model, ids, n_ids, &options, take_token, &w, &why);
        if (status == RP_OK) status = w.status;
        code = status == RP_OK ? end(&w, why, rp__seconds() - start) : cli_fail(&m->run, status);
    }
    rp__release(ids);
    return code;
}

static int generate(cli *c, const void *given, const cli_args *args)
{
    const generate_fields *fields = given;
    cli_model model;
    int code = cli_need(c, "prompt", "TEXT", fields->prompt);

    if (code != CLI_GO) return code;
    code = cli_model_open(c, args->word[0], args, RP_BF16, 0, &model);
    if (code == CLI_GO) code = go_on(&model, args->word[0], fields);
    cli_model_close(&model);
    return code;
}

static const cli_option options[] = {
    { "prompt", 'p', CLI_TEXT, offsetof(generate_fields, prompt), "TEXT", "beginning of the text", 0, 0 },
    { "chat", 'c', CLI_FLAG, offsetof(generate_fields, chat), NULL, "TEXT is a user message: apply the model's chat template", 0, 0 },
    { "max-new-tokens", 'n', CLI_INT, offsetof(generate_fields, max_new_tokens), "N", "generate at most N tokens (default: 128)", 0, 1e9 },
    { "temperature", 't', CLI_NUMBER, offsetof(generate_fields, temperature), "T",
      "sampling temperature; 0 is greedy (default: 0.8)", 0, 1e9 },
    { "top-k", 'k', CLI_INT, offsetof(generate_fields, top_k), "K", "sample from the K most likely tokens; 0: from all (default: 40)", 0, 1e9 },
    { "seed", 's', CLI_INT, offsetof(generate_fields, seed), "S", "seed for sampling; the same seed gives the same text (default: 0)", 0,
      9e15 },
};

const cli_command cmd_generate = {
    .usage = "MODEL --prompt TEXT [--chat] [KEY=VALUE ...]",
    .about = "Print the continuation of a prompt, without the prompt, until eos, N tokens or the end of the model's context. bos is put\n"
             "first if the tokenizer adds it. On a terminal, control characters in the text are made visible. MODEL is a Hugging\n"
             "Face folder, a .gguf file or the folder of an adapter.\n"
             "Keys: dtype (default: bf16), threads, tokenizer.path, model.overrides, model.adapter, model.quantize\n"
             "(default: keep, if the CPU has AVX-512), model.mapped.",
    .example = "reprise generate models/SmolLM2-135M --prompt 'Once upon a time' -n 64",
    CLI_OPTIONS(generate_fields, options),
    .defaults = &(const generate_fields){ .max_new_tokens = 128, .top_k = 40, .temperature = 0.8 },
    .least_words = 1, .most_words = 1, .settings = true,
    .run = generate,
};

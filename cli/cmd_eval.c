/* cli/cmd_eval.c -- eval: the loss and perplexity of a model on a text. */
#include "cli/cli.h"

#include <math.h>
#include <unistd.h>

#include "train/score.h"

typedef struct { const char *data; bool json; } eval_fields;

/* The window in tokens, or 0 after the message that max_seq_len does not fit the model. */
static int64_t find_window(const cli_model *m)
{
    int64_t window = m->settings->max_seq_len, context = m->config.context;

    if (!rp__recipe_given(m->settings, "max_seq_len")) return context;
    if (window >= 2 && window <= context) return window;
    cli_say(&m->run, "max_seq_len is %" PRId64 ", and the model's context allows 2 to %" PRId64, window, context);
    return 0;
}

static void show_progress(void *user, int64_t done, int64_t n_ids)
{
    const cli *c = user;

    fprintf(stderr, "\rreprise %s: %" PRId64 " of %" PRId64 " tokens%s", c->command, done, n_ids, done == n_ids ? "\n" : "");
}

static int print(const cli_model *m, const rp_score *s, int64_t n_ids, int64_t window, bool json)
{
    double perplexity = exp(fmin(s->loss, 700));

    if (!json) {
        printf("loss        %.6f nats per target\nperplexity  %.6g\ntargets     %" PRId64 "\n", s->loss, perplexity, s->targets);
        return cli_finish(&m->run, RP_OK);
    }
    json_t *all = json_pack("{s:f, s:f, s:I, s:I, s:I, s:I, s:s}", "loss", s->loss, "perplexity", perplexity, "targets",
                            (json_int_t)s->targets, "tokens", (json_int_t)n_ids, "windows", (json_int_t)s->windows, "max_seq_len",
                            (json_int_t)window, "dtype", rp_dtype_name(m->dtype));
    cli_print_json(all, 0);
    return cli_finish(&m->run, RP_OK);
}

static int score(cli_model *m, const eval_fields *fields)
{
    int64_t window = find_window(m), n_ids = 0;
    int32_t *ids   = NULL;
    rp_score score;
    int code = CLI_USAGE;

    if (!window) return code;
    rp_status status = cli_model_encode_file(m, fields->data, &ids, &n_ids);
    if (status != RP_OK) code = cli_fail_input(&m->run, status);
    else if (n_ids < 2)
        cli_say(&m->run, "'%s' has %" PRId64 " token%s: there is nothing to predict", fields->data, n_ids, n_ids == 1 ? "" : "s");
    else if ((code = cli_model_load(m)) == CLI_GO) {
        status = rp__score(m->model, ids, n_ids, window, isatty(2) ? show_progress : NULL, &m->run, &score);
        code   = status == RP_OK ? print(m, &score, n_ids, window, fields->json) : cli_fail(&m->run, status);
    }
    rp__release(ids);
    return code;
}

static int eval(cli *c, const void *given, const cli_args *args)
{
    const eval_fields *fields = given;
    cli_model model;
    int code = cli_need(c, "data", "FILE", fields->data);

    if (code == CLI_GO) code = cli_find_input(c, fields->data);
    if (code != CLI_GO) return code;
    code = cli_model_open(c, args->word[0], args, RP_F32, true, &model);
    if (code == CLI_GO) code = score(&model, fields);
    cli_model_close(&model);
    return code;
}

static const cli_option options[] = {
    { "data", 0, CLI_TEXT, offsetof(eval_fields, data), "FILE", "the text file", 0, 0 },
    { "json", 0, CLI_FLAG, offsetof(eval_fields, json), NULL, "print one JSON object", 0, 0 },
};

const cli_command cmd_eval = {
    .usage = "MODEL --data FILE [KEY=VALUE ...]",
    .about = "Score a text: the loss (mean of -log p of its tokens, in nats) and the perplexity (its exponential). The file, plain or packed\n"
             "with gzip or zstd, is one document; neither bos nor eos is added. It is cut into windows of max_seq_len tokens (default: the\n"
             "model's context), which are scored separately; the last one may be shorter. MODEL is a Hugging Face folder, a .gguf file or\n"
             "the folder of an adapter.\n"
             "Keys: max_seq_len, dtype (default: fp32), threads, tokenizer.path, model.overrides, model.adapter.",
    .example = "reprise eval models/SmolLM2-135M --data text.txt",
    CLI_OPTIONS(eval_fields, options),
    .least_words = 1, .most_words = 1, .settings = true,
    .run = eval,
};

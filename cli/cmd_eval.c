/* cli/cmd_eval.c -- eval: the loss and perplexity of a model on documents, or on the targets of a dataset. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "data/data.h"
#include "data/files.h"
#include "train/score.h"

typedef struct { const char *data; bool json; } eval_fields;

/* ---- settings ---- */

/* The window in tokens, or 0 after the message that max_seq_len does not fit the model. */
static int64_t find_window(const cli_model *m)
{
    int64_t window = m->settings->max_seq_len, context = m->config.context;

    if (!rp__recipe_given(m->settings, "max_seq_len")) return context;
    if (window >= 2 && window <= context) return window;
    cli_say(&m->run, "max_seq_len is %" PRId64 ", and the model's context allows 2 to %" PRId64, window, context);
    return 0;
}

/* ---- the text ---- */

typedef struct { cli_ids all; int64_t *end, n; } documents;     /* end[i]: end of document i in `all` */

/* An empty file is no document. */
static rp_status read_documents(cli_model *m, const char *path, documents *out)
{
    const rp_data_config text = { .path = path, .format = "text" };
    rp_data_files files;
    rp_status status = rp__data_files(m->run.ctx, NULL, &text, &files);

    if (status == RP_OK && !(out->end = rp__host_alloc(m->run.ctx, files.n * (int64_t)sizeof *out->end))) status = RP_ERR_MEMORY;
    for (int64_t i = 0; i < files.n && status == RP_OK; i++) {
        int64_t before = out->all.n;
        status         = cli_model_encode_file(m, files.path[i], &out->all);
        if (out->all.n > before) out->end[out->n++] = out->all.n;
    }
    rp__data_files_free(&files);
    return status;
}

static int64_t first_of(const documents *d, int64_t i) { return i ? d->end[i - 1] : 0; }

/* CLI_GO if a document has two tokens, so that there is something to predict; else the exit code after an error message. */
static int check_documents(const cli *c, const documents *d, const char *path)
{
    for (int64_t i = 0; i < d->n; i++)
        if (d->end[i] - first_of(d, i) >= 2) return CLI_GO;
    if (!d->n) cli_say(c, "'%s' is empty", path);
    else if (d->n == 1) cli_say(c, "'%s' has 1 token: there is nothing to predict", path);
    else cli_say(c, "each of the %" PRId64 " documents of '%s' has 1 token: there is nothing to predict", d->n, path);
    return CLI_USAGE;
}

/* ---- scoring ---- */

typedef struct { const cli *c; int64_t before, n_ids; } shown;      /* tokens of earlier documents, and of all */

static void show_progress(void *user, int64_t done, int64_t n_ids)
{
    const shown *s = user;

    (void)n_ids;
    fprintf(stderr, "\rreprise %s: %" PRId64 " of %" PRId64 " tokens", s->c->command, s->before + done, s->n_ids);
}

/* The loss is the mean over the targets of all documents. */
static rp_status score_documents(cli_model *m, const documents *d, int64_t window, rp_score *out)
{
    bool terminal    = isatty(2);
    rp_status status = RP_OK;

    *out = (rp_score){ 0 };
    for (int64_t i = 0; i < d->n && status == RP_OK; i++) {
        int64_t first = first_of(d, i), n = d->end[i] - first;
        shown to      = { &m->run, first, d->all.n };
        rp_score one;
        if (n < 2) continue;
        status = rp__score(m->model, d->all.id + first, n, window, terminal ? show_progress : NULL, &to, &one);
        if (status != RP_OK) break;
        out->targets += one.targets;
        out->windows += one.windows;
        out->loss += (one.loss - out->loss) * ((double)one.targets / (double)out->targets);
    }
    if (terminal) fputc('\n', stderr);
    return status;
}

static int print(const cli_model *m, const rp_score *s, int64_t n_documents, int64_t n_tokens, int64_t window, bool json)
{
    double perplexity = exp(fmin(s->loss, 700));

    if (!json) {
        printf("loss        %.6f nats per target\nperplexity  %.6g\ntargets     %" PRId64 "\n", s->loss, perplexity, s->targets);
        if (n_documents > 1) printf("documents   %" PRId64 "\n", n_documents);
        return cli_finish(&m->run, RP_OK);
    }
    json_t *all = json_pack("{s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:s}", "loss", s->loss, "perplexity", perplexity, "targets",
                            (json_int_t)s->targets, "tokens", (json_int_t)n_tokens, "documents", (json_int_t)n_documents, "windows", (json_int_t)s->windows,
                            "max_seq_len", (json_int_t)window, "dtype", rp_dtype_name(m->dtype));
    cli_print_json(all, 0);
    return cli_finish(&m->run, RP_OK);
}

static int score_text(cli_model *m, const eval_fields *fields, int64_t window)
{
    documents d = { 0 };
    rp_score score;

    rp_status status = read_documents(m, fields->data, &d);
    int code         = status == RP_OK ? check_documents(&m->run, &d, fields->data) : cli_fail_input(&m->run, status);
    if (code == CLI_GO) code = cli_model_load(m);
    if (code == CLI_GO) {
        status = score_documents(m, &d, window, &score);
        code   = status == RP_OK ? print(m, &score, d.n, d.all.n, window, fields->json) : cli_fail(&m->run, status);
    }
    RP_RELEASE(d.all.id, d.end);
    return code;
}

/* ---- the samples of a dataset ---- */

/* Score the data as a run of a recipe with these keys validates with it. The data is opened before the model takes the config. */
static int score_data(cli_model *m, const char *path, const eval_fields *fields, int64_t window)
{
    rp_recipe recipe = *m->settings;
    bool terminal    = isatty(2);
    rp_data *data    = NULL;
    rp_score score;

    recipe.model.path   = path;
    recipe.dataset.path = (rp_file_list){ .first = fields->data };
    recipe.max_seq_len  = window;
    rp_status status    = rp__score_open(m->run.ctx, &recipe, &m->config, m->tokenizer, &data);
    int code            = status == RP_OK ? cli_model_load(m) : cli_fail_input(&m->run, status);
    if (code == CLI_GO) {
        const rp_data_info info = rp__data_info(data);
        shown to                = { &m->run, 0, info.n_tokens };
        status = rp__score_samples(m->model, data, (int32_t)recipe.loss.ignore_index, terminal ? show_progress : NULL, &to, &score);
        if (terminal) fputc('\n', stderr);
        code = status == RP_OK ? print(m, &score, info.n_documents, info.n_tokens, window, fields->json) : cli_fail(&m->run, status);
    }
    rp__data_close(data);
    return code;
}

static int score(cli_model *m, const char *path, const eval_fields *fields)
{
    int64_t window = find_window(m);

    if (!window) return CLI_USAGE;
    if (rp__recipe_given(m->settings, "dataset.path")) {
        cli_say(&m->run, "--data names the data here, not 'dataset.path'");
        return CLI_USAGE;
    }
    return m->settings->dataset.format == RP_FORMAT_TEXT ? score_text(m, fields, window) : score_data(m, path, fields, window);
}

static bool is_glob(const char *path) { return strpbrk(path, "*?["); }

static int eval(cli *c, const void *given, const cli_args *args)
{
    const eval_fields *fields = given;
    cli_model model;
    int code = cli_need(c, "data", "PATH", fields->data);

    if (code == CLI_GO && !is_glob(fields->data)) code = cli_find_input(c, fields->data);
    if (code != CLI_GO) return code;
    code = cli_model_open(c, args->word[0], args, RP_F32, CLI_LENGTH | CLI_DATASET, &model);
    if (code == CLI_GO) code = score(&model, args->word[0], fields);
    cli_model_close(&model);
    return code;
}

static const cli_option options[] = {
    { "data", 0, CLI_TEXT, offsetof(eval_fields, data), "PATH", "a file, a folder or a glob, as in dataset.path", 0, 0 },
    { "json", 0, CLI_FLAG, offsetof(eval_fields, json), NULL, "print one JSON object", 0, 0 },
};

const cli_command cmd_eval = {
    .usage = "MODEL --data PATH [KEY=VALUE ...]",
    .about = "Score a text: the loss (mean of -log p of its tokens, in nats) and the perplexity (its exponential). Each file, plain or packed\n"
             "with gzip or zstd, is one document; neither bos nor eos is added. It is cut into windows of max_seq_len tokens (default: the\n"
             "model's context), which are scored separately; the last one may be shorter. A folder stands for its files that end in .txt,\n"
             ".text or .md, also in folders below. MODEL is a Hugging Face folder, a .gguf file or the folder of an adapter.\n"
             "With dataset.format=jsonl, chat, alpaca or tokens, the targets of the data are scored as a run of a recipe with these keys\n"
             "validates with it: dataset.column, dataset.prompt_column, dataset.train_on_input, dataset.packed and so on.\n"
             "Keys: max_seq_len, dataset, tokenizer.chat_template, loss.ignore_index, dtype (default: fp32), threads, tokenizer.path,\n"
             "model.overrides, model.adapter, model.quantize (default: keep, if the CPU has AVX-512), model.mapped.",
    .example = "reprise eval models/SmolLM2-135M --data text.txt",
    CLI_OPTIONS(eval_fields, options),
    .least_words = 1, .most_words = 1, .settings = true,
    .run = eval,
};

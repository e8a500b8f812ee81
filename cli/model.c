/* cli/model.c -- opens MODEL and KEY=VALUE of a command that computes: a context, a tokenizer, a model.
 *
 * The settings are recipe keys, so the recipe's schema reads them. A command accepts only the keys that it uses. */
#include "cli/cli.h"

#include "base/list.h"
#include "base/report.h"
#include "kernels/kernels.h"
#include "models/adapter.h"
#include "models/config.h"
#include "models/model.h"
#include "rehearse/rehearsal.h"
#include "template/chat.h"
#include "text/file.h"
#include "text/utf8.h"
#include "tokenizer/text_ids.h"
#include "train/loop.h"

/* A key includes all keys under it. Keys with a flag are accepted only with it. */
static const struct { const char *key; int flag; } keys[] = {
    { "max_seq_len", CLI_LENGTH }, { "dataset", CLI_DATASET }, { "tokenizer.chat_template", CLI_DATASET }, { "loss.ignore_index", CLI_DATASET },
    { "dtype", 0 }, { "device", 0 }, { "threads", 0 }, { "tokenizer.path", 0 }, { "model.overrides", 0 }, { "model.adapter", 0 }, { "model.quantize", 0 },
    { "model.mapped", 0 },
};

static bool is_under(const char *setting, const char *key)
{
    size_t n = strlen(key);

    return !strncmp(setting, key, n) && (setting[n] == '=' || setting[n] == '.');
}

/* The keys that a command accepts, up to NULL. */
static void list_keys(int more, const char *out[RP_COUNT(keys) + 1])
{
    int n = 0;

    for (int i = 0; i < RP_COUNT(keys); i++)
        if (!keys[i].flag || keys[i].flag & more) out[n++] = keys[i].key;
    out[n] = NULL;
}

static void model_refuse(const char *setting, const char *const *taken, int more, rp_report *report)
{
    char name[RP_ERROR_CHARS], origin[RP_ERROR_CHARS];
    bool removes = setting[0] == '~';

    snprintf(name, sizeof name, "%.*s", (int)strcspn(setting, "="), setting);
    snprintf(origin, sizeof origin, "argument '%s'", setting);
    rp_place place   = { origin, 0 };
    const char *near = rp__nearest(name, taken);
    if (removes) rp__report_error(report, place, "there is no recipe here to remove a key from");
    else if (near) rp__report_error(report, place, "unknown key '%s' (did you mean '%s'?)", name, near);
    else
        rp__report_error(report, place, "unknown key '%s'; the keys here are %s%s%s", name, more & CLI_LENGTH ? "max_seq_len, " : "",
                         more & CLI_DATASET ? "dataset, tokenizer.chat_template, loss.ignore_index, " : "",
                         "dtype, threads, tokenizer.path, model.overrides, model.adapter, model.quantize and model.mapped");
}

/* Read the settings that a command accepts by the recipe's schema. Report the others as errors. */
static rp_status read_settings(cli *c, const cli_args *args, int more, rp_report *report, rp_recipe **out)
{
    static const char nothing[] = "model: {path: model}\n";       /* a recipe must name one */
    const char *taken[RP_COUNT(keys) + 1];
    const char **setting        = rp__host_alloc(c->ctx, (args->n_settings + 1) * (int64_t)sizeof *setting);
    int n = 0;

    if (!setting) return RP_ERR_MEMORY;
    list_keys(more, taken);
    for (int i = 0; i < args->n_settings; i++) {
        bool known = false;
        for (int k = 0; taken[k]; k++) known = known || is_under(args->setting[i], taken[k]);
        if (known) setting[n++] = args->setting[i];
        else model_refuse(args->setting[i], taken, more, report);
    }
    rp_status status = rp__recipe_read(c->ctx, "settings", nothing, sizeof nothing - 1, n, setting, report, out);
    rp__release(setting);
    return status;
}

static int open_tokenizer(cli_model *m, const char *path)
{
    char *beside     = NULL;
    rp_status status = m->settings->tokenizer.path ? RP_OK : rp__tokenizer_place(m->run.ctx, path, &beside);
    const char *at   = beside ? beside : m->settings->tokenizer.path;
    int code         = status == RP_OK ? cli_find_input(&m->run, at) : CLI_GO;

    if (status == RP_OK && code == CLI_GO) status = rp__tokenizer_load(m->run.ctx, at, &m->tokenizer);
    rp__release(beside);
    return status == RP_OK ? code : cli_fail_input(&m->run, status);
}

/* Quantised weights give the same bits as the model's dtype, in less memory. Without AVX-512 decoding takes more time than it saves, and other devices have
 * no kernels for them. */
static void keep_quantised(const rp_ctx *ctx, rp_recipe *settings)
{
    const char *level = rp__kernels(ctx)->level;
    bool fast         = !strcmp(level, "v4") || !strcmp(level, "zen4") || !strcmp(level, "amx");

    if (fast && settings->device == RP_DEVICE_CPU && !rp__recipe_given(settings, "model.quantize")) settings->model.quantize = RP_QUANTIZE_KEEP;
}

static int open_files(cli_model *m, const char *path)
{
    const char *adapter = m->settings->model.adapter;
    rp_report report;

    rp__report_open(&report, m->run.ctx);
    rp_status status = rp__model_files_open(m->run.ctx, path, m->settings->model.overrides, &report, &m->files);
    if (status == RP_OK && adapter) status = rp__model_files_adapter(m->files, adapter);
    keep_quantised(m->run.ctx, m->settings);
    if (status == RP_OK) status = rp__source_store(m->settings, m->files);
    if (status == RP_OK) status = rp__model_files_config(m->files, &m->config);
    m->config.quant.all_frozen = true;
    int code = cli_report_input(&m->run, &report, status);
    return code == CLI_GO ? open_tokenizer(m, path) : code;
}

int cli_model_open(cli *c, const char *path, const cli_args *args, rp_dtype otherwise, int more, cli_model *out)
{
    rp_report report;

    *out     = (cli_model){ .run = { .command = c->command } };
    int code = cli_find_model(c, path);
    if (code != CLI_GO) return code;
    rp__report_open(&report, c->ctx);
    rp_status status = read_settings(c, args, more, &report, &out->settings);
    code             = cli_report_input(c, &report, status);
    if (code != CLI_GO) return code;
    rp_ctx_options options = { .threads = (int)out->settings->threads, .device = rp__recipe_device(out->settings) };
    code                   = cli_open_context(c, &options, &out->run);
    if (code != CLI_GO) return code;
    out->dtype = otherwise;
    if (rp__recipe_given(out->settings, "dtype")) out->dtype = out->settings->dtype == RP_TRAIN_BF16 ? RP_BF16 : RP_F32;
    return open_files(out, path);
}

static rp_status check_ids(const cli_model *m, const int32_t *ids, int64_t n)
{
    int32_t greatest = -1;

    for (int64_t i = 0; i < n; i++) greatest = ids[i] > greatest ? ids[i] : greatest;
    RP_CHECK(m->run.ctx, greatest < m->config.vocab, RP_ERR_ARG, "the tokenizer gives id %" PRId32 ", and the model's vocabulary has %" PRId64
             ": it is another model's", greatest, m->config.vocab);
    return RP_OK;
}

static rp_status check_utf8(const cli_model *m, const char *prompt, int64_t bytes)
{
    int64_t valid = rp__utf8_valid(prompt, bytes);

    RP_CHECK(m->run.ctx, valid == bytes, RP_ERR_ARG, "the prompt is not UTF-8: byte %" PRId64 " is 0x%02x, which belongs to no character", valid,
             (uint8_t)prompt[valid]);
    return RP_OK;
}

rp_status cli_model_encode(cli_model *m, const char *text, int64_t bytes, int32_t **ids, int64_t *n_ids)
{
    int32_t *made = NULL;
    int64_t n     = 0;

    RP_TRY(check_utf8(m, text, bytes));
    RP_TRY(rp__tokenizer_encode(m->tokenizer, text, bytes, &made, &n));
    rp_status status = check_ids(m, made, n);
    if (status != RP_OK) {
        rp__release(made);
        return status;
    }
    *ids   = made;
    *n_ids = n;
    return RP_OK;
}

typedef struct { cli_model *model; cli_ids *to; } appending;

static rp_status append(void *user, const int32_t *ids, int64_t n_ids)
{
    appending *a = user;
    cli_ids *to  = a->to;

    RP_TRY(check_ids(a->model, ids, n_ids));
    RP_TRY(RP_GROW(a->model->run.ctx, to->id, to->room, to->n + n_ids));
    memcpy(to->id + to->n, ids, (size_t)n_ids * sizeof *ids);
    to->n += n_ids;
    return RP_OK;
}

rp_status cli_model_encode_file(cli_model *m, const char *path, cli_ids *ids)
{
    rp_text_file *file = NULL;
    appending a        = { m, ids };

    RP_TRY(rp__text_file_open(m->run.ctx, path, &file));
    rp_status status = rp__text_file_check(file);
    if (status == RP_OK) status = rp__text_ids(m->run.ctx, file, rp__text_ids_feed, m->tokenizer, append, &a);
    rp__text_file_close(file);
    return status;
}

/* ---- a question ---- */

static rp_status open_chat(cli_model *m, const char *path, rp_chat **out)
{
    char *beside     = NULL;
    rp_status status = m->settings->tokenizer.path ? RP_OK : rp__tokenizer_place(m->run.ctx, path, &beside);

    if (status == RP_OK) status = rp__chat_load(m->run.ctx, beside ? beside : m->settings->tokenizer.path, NULL, out);
    rp__release(beside);
    if (status == RP_OK && !*out)
        return rp_fail(m->run.ctx, RP_ERR_ARG, "no chat template is beside the tokenizer of '%s': leave out --chat", path);
    return status;
}

rp_status cli_model_ask(cli_model *m, const char *path, const char *says, char **text)
{
    rp_chat *chat        = NULL;
    rp_template_text all = { 0 };

    RP_TRY(check_utf8(m, says, (int64_t)strlen(says)));
    RP_TRY(open_chat(m, path, &chat));
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", says);
    rp_status status = messages ? rp__chat_ask(chat, messages, &all) : rp_fail(m->run.ctx, RP_ERR_MEMORY, "cannot allocate a conversation");
    json_decref(messages);
    rp__chat_free(chat);
    if (status == RP_OK) *text = all.text;
    rp__release(all.span);
    return status;
}

int cli_model_load(cli_model *m)
{
    rp_status status = rp__model_build(m->run.ctx, &m->config, m->dtype, &m->model);
    char left_out[RP_LEFT_OUT_CHARS];

    if (status == RP_OK) status = rp__model_load(m->model, m->files);
    if (status != RP_OK) return cli_fail(&m->run, status);
    if (rp__model_left_out_text(m->model, rp__model_files_left_out(m->files), left_out)) cli_say(&m->run, "%s", left_out);
    rp__model_files_close(m->files);
    m->files = NULL;
    return CLI_GO;
}

void cli_model_close(cli_model *m)
{
    rp__model_free(m->model);
    rp__model_config_drop(&m->config);
    rp__model_files_close(m->files);
    rp__tokenizer_free(m->tokenizer);
    rp_ctx_free(m->run.ctx);
    rp__recipe_free(m->settings);
}

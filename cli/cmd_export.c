/* cli/cmd_export.c -- export: writes a model, with its adapter merged in, or an adapter alone as a GGUF file. */
#include "cli/cli.h"

#include <signal.h>
#include <strings.h>

#include "base/file.h"
#include "base/report.h"
#include "gguf/write.h"
#include "models/gguf/export.h"

typedef struct { const char *gguf, *out, *name; bool adapter; } export_fields;

typedef struct {
    cli run;                            /* with a context of shapes: weights go from file to file */
    char *path;                         /* of the model; of a run, its final/ */
    rp_gguf_opened opened;
    char name[CLI_LINE_CHARS], type[16];
    rp_gguf_options options;
    rp_gguf_outcome outcome;
} exporting;

/* ---- arguments ---- */

/* Types in any case; keep leaves out->options.type NULL. */
static int read_type(const cli *c, const export_fields *f, exporting *x)
{
    char types[RP_GGUF_TYPES_CHARS];
    size_t n = strlen(f->gguf);

    for (size_t i = 0; i <= n && n < sizeof x->type; i++) x->type[i] = f->gguf[i] >= 'a' && f->gguf[i] <= 'z' ? (char)(f->gguf[i] - 32) : f->gguf[i];
    if (!strcasecmp(f->gguf, "keep") && !f->adapter) return CLI_GO;
    x->options.type = x->type;
    if (n < sizeof x->type && rp__gguf_can_write(x->type)) return CLI_GO;
    cli_say(c, "'%.40s' is no type that is written; these are: %s%s", f->gguf, rp__gguf_types_text(types), f->adapter ? "" : ", keep");
    return CLI_USAGE;
}

/* The folder of a run stands for its final/. */
static char *model_path(rp_ctx *ctx, const char *given)
{
    static const char *const names[] = { "config.json", "adapter_config.json" };
    bool model = false;

    for (int i = 0; i < RP_COUNT(names) && !model; i++) {
        char *file = rp__path_join(ctx, given, names[i]);
        if (!file) return NULL;
        model = rp__file_exists(file);
        rp__release(file);
    }
    char *final = rp__path_join(ctx, given, "final");
    if (!final || model || !rp__file_is_dir(given) || !rp__file_is_dir(final)) {
        rp__release(final);
        return rp__host_text(ctx, given);
    }
    return final;
}

/* The last part of a path; that of the run for its final/. */
static void find_name(exporting *x, const char *given)
{
    char *text = x->name, *slash;

    snprintf(x->name, sizeof x->name, "%s", given ? given : x->path);
    for (slash = strrchr(text, '/'); slash && (!slash[1] || !strcmp(slash, "/final")) && slash > text; slash = strrchr(text, '/')) *slash = 0;
    x->options.name = slash ? slash + 1 : text;
}

/* ---- opening ---- */

/* A folder without a tokenizer gives a file without one. */
static void choose_tokenizer(exporting *x)
{
    x->options.tokenizer  = x->opened.tokenizer;
    x->options.chat       = x->opened.chat;
    x->options.chat_bytes = x->opened.chat_bytes;
    if (!x->opened.from_gguf && !x->opened.tokenizer) cli_say(&x->run, "'%s' has no tokenizer, so the file has none", x->path);
}

static int open_model(cli *c, const char *given, const export_fields *f, exporting *x)
{
    const rp_ctx_options shapes = { .threads = 1, .shapes_only = true };
    rp_report report;
    int code = cli_open_context(c, &shapes, &x->run);

    if (code != CLI_GO) return code;
    if (!(x->path = model_path(x->run.ctx, given))) return cli_fail(&x->run, RP_ERR_MEMORY);
    rp__report_open(&report, x->run.ctx);
    code = cli_report_input(&x->run, &report, rp__gguf_opened_open(x->run.ctx, x->path, !f->adapter, &report, &x->opened));
    if (code != CLI_GO) return code;
    if (f->name || f->adapter || !x->opened.from_gguf) find_name(x, f->name);
    if (!f->adapter) choose_tokenizer(x);
    return CLI_GO;
}

static void close_model(exporting *x)
{
    rp__gguf_opened_close(&x->opened);
    rp__release(x->path);
    rp_ctx_free(x->run.ctx);
}

/* ---- the work ---- */

static void print_outcome(const exporting *x, const rp_report *report, const char *out)
{
    const rp_gguf_outcome *o = &x->outcome;
    char name[CLI_LINE_CHARS], text[CLI_LINE_CHARS], size[RP_SIZE_CHARS];

    printf("model          %s\n", cli_one_line(x->path, name));
    printf("tensors        %" PRId64 ":", o->tensors);
    for (int i = 0; i < o->n_types; i++) printf("%s %" PRId64 " %s", i ? "," : "", o->of[i].tensors, o->of[i].type);
    if (o->copied) printf("; %" PRId64 " copied as bytes", o->copied);
    printf("\n");
    for (const rp_report_item *i = report->first; i; i = i->next)
        printf("note           %s: %s\n", cli_one_line(i->place.origin, name), cli_one_line(i->text, text));
    printf("written        %s: %s\n", cli_one_line(out, name), cli_size(size, o->bytes));
}

static int write_file(exporting *x, const export_fields *f)
{
    rp_report report;

    rp__report_open(&report, x->run.ctx);
    rp_status status = (f->adapter ? rp__gguf_export_adapter : rp__gguf_export)(x->opened.model, x->opened.files, &x->options, f->out, &report, &x->outcome);
    if (status == RP_OK) print_outcome(x, &report, f->out);
    rp__report_close(&report);
    return cli_finish(&x->run, status);
}

static int export(cli *c, const void *given, const cli_args *args)
{
    const export_fields *f = given;
    exporting x            = { .path = NULL };
    int code               = cli_need(c, "gguf", "TYPE", f->gguf);

    if (code == CLI_GO) code = cli_need(c, "output", "FILE", f->out);
    if (code == CLI_GO) code = read_type(c, f, &x);
    if (code == CLI_GO) code = cli_find_output(c, f->out);
    if (code == CLI_GO) code = cli_find_model(c, args->word[0]);
    if (code != CLI_GO) return code;
    signal(SIGXFSZ, SIG_IGN);           /* a file-size limit then fails the write, like a full disk */
    code = open_model(c, args->word[0], f, &x);
    if (code == CLI_GO) code = write_file(&x, f);
    close_model(&x);
    return code;
}

static const cli_option options[] = {
    { "gguf", 'g', CLI_TEXT, offsetof(export_fields, gguf), "TYPE",
      "type of the matrices: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, or keep: each as in its GGUF file", 0, 0 },
    { "output", 'o', CLI_TEXT, offsetof(export_fields, out), "FILE", "the file to write; it appears when it is complete", 0, 0 },
    { "adapter", 'a', CLI_FLAG, offsetof(export_fields, adapter), NULL, "write the adapter alone instead of merging it", 0, 0 },
    { "name", 'n', CLI_TEXT, offsetof(export_fields, name), "TEXT", "the name in the file (default: that of the folder or of the GGUF file)", 0, 0 },
};

const cli_command cmd_export = {
    .usage = "MODEL|RUN_DIR --gguf TYPE -o FILE [--adapter] [--name TEXT] [--bytes]",
    .about = "Write a model as a GGUF file for llama.cpp, with its adapter merged in, if it has one. MODEL is a Hugging Face folder, a .gguf\n"
             "file or the folder of an adapter, RUN_DIR the folder of a run, which stands for its final/. Vectors, norms and routers are\n"
             "always F32. A model from GGUF keeps its metadata; tensors that have the type already are copied byte for byte.",
    .example = "reprise export runs/my_run --gguf Q8_0 -o my_model.gguf",
    CLI_OPTIONS(export_fields, options),
    .least_words = 1, .most_words = 1, .sizes = true,
    .run = export,
};

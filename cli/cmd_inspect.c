/* cli/cmd_inspect.c -- inspect: the contents of a model or of a file of tensors.
 *
 * Everything is collected in one JSON value first. --json prints it, and the text is made from it:
 *   { path, format, parameters, bytes, config: {…} | null, tokenizer: {…} | null, tensors: [{ name, dtype, shape, bytes }] }
 * A model that wraps a text model also has text: { model_type, parameters, bytes, left_out: { tensors, bytes } }; only its text model is trained.
 * config is config.json, adapter_config.json of an adapter, or the key-values of a GGUF file; of a long array only the length is shown. */
#include "cli/cli.h"

#include "base/file.h"
#include "base/json_text.h"
#include "base/report.h"
#include "gguf/gguf.h"
#include "models/adapter.h"
#include "models/config.h"
#include "models/quant.h"
#include "models/weights_internal.h"
#include "models/wrapper.h"
#include "safetensors/safetensors.h"
#include "tokenizer/tokenizer.h"

enum { SHOWN_ELEMENTS = 16, CONFIG_BYTES = 1 << 20 };

typedef struct { bool json, config; } inspect_fields;

static void add_tensor(json_t *tensors, const char *name, const char *dtype, int ndim, const int64_t *dim, int64_t bytes)
{
    json_t *shape = json_array();

    for (int i = 0; i < ndim; i++) json_array_append_new(shape, json_integer(dim[i]));
    json_array_append_new(tensors, json_pack("{s:s?, s:s, s:o, s:I}", "name", name, "dtype", dtype, "shape", shape, "bytes",
                                             (json_int_t)bytes));
}

/* ---- safetensors and folders ---- */

static rp_status gather_safetensors(cli *c, const char *path, json_t *tensors)
{
    char *adapter = rp__adapter_is_folder(path) ? rp__path_join(c->ctx, path, "adapter_model.safetensors") : NULL;
    rp_safetensors *set;

    rp_status status = rp__safetensors_open(c->ctx, adapter ? adapter : path, &set);
    rp__release(adapter);
    RP_TRY(status);
    for (int64_t i = 0; i < rp__safetensors_n_tensors(set); i++) {
        const rp_safetensor *t = rp__safetensors_at(set, i);
        add_tensor(tensors, t->name, rp__safetensors_dtype_name(t->dtype), t->ndim, t->dim, t->bytes);
    }
    rp__safetensors_close(set);
    return RP_OK;
}

/* Reads config.json, or adapter_config.json of an adapter. A missing file is no error. */
static rp_status gather_config(cli *c, const char *folder, json_t **config)
{
    bool adapter = rp__adapter_is_folder(folder);
    char *path   = rp__path_join(c->ctx, folder, adapter ? "adapter_config.json" : "config.json"), *text = NULL;
    json_error_t error;
    int64_t bytes;

    if (!path) return RP_ERR_MEMORY;
    rp_status status = RP_OK;
    if (rp__file_exists(path)) {
        status = rp__file_read(c->ctx, path, CONFIG_BYTES, &text, &bytes);
        if (status == RP_OK && !(*config = rp__json_read(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error)))
            status = rp_fail(c->ctx, RP_ERR_FORMAT, "'%s' line %d: %s", path, error.line, error.text);
    }
    rp__release(text);
    rp__release(path);
    return status;
}

/* ---- GGUF ---- */

static json_t *gguf_scalar(rp_gguf_kind kind, int64_t i, double f, rp_gguf_string s)
{
    json_t *text;

    if (kind == RP_GGUF_BOOL) return json_boolean(i);
    if (kind == RP_GGUF_FLOAT) return json_real(f);
    if (kind != RP_GGUF_STRING) return json_integer(i);
    text = json_stringn(s.text, (size_t)s.bytes);
    return text ? text : json_null();
}

static json_t *gguf_value(const rp_gguf *file, const rp_gguf_value *v)
{
    if (v->kind != RP_GGUF_ARRAY) return gguf_scalar(v->kind, v->i, v->f, v->s);
    if (v->count > SHOWN_ELEMENTS) return json_pack("{s:I}", "count", (json_int_t)v->count);
    json_t *list = json_array();
    for (int64_t i = 0; i < v->count; i++) {
        double number = rp__gguf_array_number(file, v, i);
        json_array_append_new(list, gguf_scalar(v->element, (int64_t)number, number, rp__gguf_array_string(file, v, i)));
    }
    return list;
}

static rp_status gather_gguf(cli *c, const char *path, json_t *tensors, json_t **config)
{
    rp_gguf *file;

    RP_TRY(rp__gguf_open(c->ctx, path, &file));
    *config = json_object();
    for (int64_t i = 0; i < rp__gguf_n_values(file); i++) {
        const rp_gguf_value *v = rp__gguf_value_at(file, i);
        json_object_set_new(*config, v->key, gguf_value(file, v));
    }
    for (int64_t i = 0; i < rp__gguf_n_tensors(file); i++) {
        const rp_gguf_tensor *t = rp__gguf_tensor_at(file, i);
        add_tensor(tensors, t->name, t->type, t->ndim, t->dim, t->bytes);
    }
    rp__gguf_close(file);
    return RP_OK;
}

/* ---- everything ---- */

/* null, with a note on stderr, if there is no tokenizer or its kind is not supported. */
static json_t *gather_tokenizer(cli *c, const char *path, bool expected)
{
    rp_tokenizer *tokenizer;

    if (!expected) return json_null();
    if (rp__tokenizer_load(c->ctx, path, &tokenizer) != RP_OK) {
        cli_say(c, "no tokenizer: %s", rp_error(c->ctx));
        return json_null();
    }
    json_t *summary = json_pack("{s:i, s:i, s:i, s:b}", "vocab", (int)rp__tokenizer_vocab(tokenizer), "bos",
                                (int)rp__tokenizer_bos(tokenizer), "eos", (int)rp__tokenizer_eos(tokenizer), "adds_bos",
                                (int)rp__tokenizer_adds_bos(tokenizer));
    rp__tokenizer_free(tokenizer);
    return summary;
}

typedef struct { json_int_t tensors, parameters, bytes; } totals;

static void count_tensor(totals *to, const json_t *tensor)
{
    json_int_t elems = 1;
    size_t k;
    json_t *dim;

    json_array_foreach(json_object_get(tensor, "shape"), k, dim) elems *= json_integer_value(dim);
    to->tensors++;
    to->parameters += elems;
    to->bytes += json_integer_value(json_object_get(tensor, "bytes"));
}

static void add_totals(json_t *all, const json_t *tensors)
{
    totals sum = { 0 };
    size_t i;
    json_t *tensor;

    json_array_foreach(tensors, i, tensor) count_tensor(&sum, tensor);
    json_object_set_new(all, "parameters", json_integer(sum.parameters));
    json_object_set_new(all, "bytes", json_integer(sum.bytes));
}

/* Adds the totals of the text model inside a wrapper. */
static void add_text(json_t *all, const json_t *config, const json_t *tensors)
{
    const rp_wrapper *wrapper = rp__wrapper_find(config);
    const char *type          = json_string_value(json_object_get(json_object_get(config, "text_config"), "model_type"));
    totals text = { 0 }, other = { 0 };
    size_t i;
    json_t *tensor;

    if (!wrapper) return;
    json_array_foreach(tensors, i, tensor)
        count_tensor(rp__wrapper_leaves_out(wrapper, json_string_value(json_object_get(tensor, "name"))) ? &other : &text, tensor);
    json_object_set_new(all, "text", json_pack("{s:s, s:I, s:I, s:{s:I, s:I}}", "model_type", type ? type : wrapper->text_type, "parameters",
                                               text.parameters, "bytes", text.bytes, "left_out", "tensors", other.tensors, "bytes", other.bytes));
}

static rp_status gather(cli *c, const char *path, json_t *all)
{
    bool is_folder = rp__file_is_dir(path), is_gguf = rp__ends_with(path, ".gguf");
    json_t *tensors = json_array(), *config = NULL;
    rp_status status = RP_OK;

    if (is_gguf && !is_folder) status = gather_gguf(c, path, tensors, &config);
    else if (is_folder) status = gather_config(c, path, &config);
    if (status == RP_OK && (is_folder || !is_gguf)) {
        status = gather_safetensors(c, path, tensors);
        if (status == RP_ERR_MATCH && config) {                 /* a config without weights is a model with random weights */
            cli_say(c, "no tensors: %s", rp_error(c->ctx));
            status = RP_OK;
        }
    }
    json_object_set_new(all, "path", json_string(path));
    json_object_set_new(all, "format", json_string(is_gguf && !is_folder ? "gguf" : "safetensors"));
    add_totals(all, tensors);
    add_text(all, config, tensors);
    json_object_set_new(all, "config", config ? config : json_null());
    json_object_set_new(all, "tokenizer", status == RP_OK ? gather_tokenizer(c, path, is_folder || is_gguf) : json_null());
    json_object_set_new(all, "tensors", tensors);
    return status;
}

static json_int_t inspect_number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void print_tensor(const json_t *tensor)
{
    char shape[256] = "", name[CLI_LINE_CHARS];
    size_t i, used = 0;
    json_t *dim;

    cli_one_line(json_string_value(json_object_get(tensor, "name")), name);
    json_array_foreach(json_object_get(tensor, "shape"), i, dim)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%" JSON_INTEGER_FORMAT, i ? ", " : "",
                                 json_integer_value(dim));
    printf("  %-48s %-5s [%s]\n", name, json_string_value(json_object_get(tensor, "dtype")), shape);
}

static void inspect_print_text(const json_t *text)
{
    const json_t *other = json_object_get(text, "left_out");
    char size[RP_SIZE_CHARS], rest[RP_SIZE_CHARS], type[CLI_LINE_CHARS];

    printf("text model %s: %" JSON_INTEGER_FORMAT " parameters, %s; %" JSON_INTEGER_FORMAT " tensors of other parts, %s, are not read\n",
           cli_one_line(json_string_value(json_object_get(text, "model_type")), type), inspect_number_of(text, "parameters"),
           cli_size(size, inspect_number_of(text, "bytes")), inspect_number_of(other, "tensors"), cli_size(rest, inspect_number_of(other, "bytes")));
}

static void print_table(const json_t *all)
{
    const json_t *config = json_object_get(all, "config"), *tokenizer = json_object_get(all, "tokenizer"), *tensor;
    char size[RP_SIZE_CHARS], name[CLI_LINE_CHARS];
    const char *key;
    json_t *value;
    size_t i;

    printf("%s: %s, %zu tensors, %" JSON_INTEGER_FORMAT " parameters, %s\n", cli_one_line(json_string_value(json_object_get(all, "path")), name),
           json_string_value(json_object_get(all, "format")), json_array_size(json_object_get(all, "tensors")),
           inspect_number_of(all, "parameters"), cli_size(size, inspect_number_of(all, "bytes")));
    if (json_object_get(all, "text")) inspect_print_text(json_object_get(all, "text"));
    if (json_is_object(config)) printf("\nconfig\n");
    json_object_foreach((json_t *)config, key, value) {
        char *text = rp__json_text(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        printf("  %-48s %s\n", cli_one_line(key, name), text ? text : "");
        free(text);
    }
    if (json_is_object(tokenizer))
        printf("\ntokenizer\n  %" JSON_INTEGER_FORMAT " ids, bos %" JSON_INTEGER_FORMAT ", eos %" JSON_INTEGER_FORMAT
               ", bos %s before a document\n", inspect_number_of(tokenizer, "vocab"), inspect_number_of(tokenizer, "bos"),
               inspect_number_of(tokenizer, "eos"), json_is_true(json_object_get(tokenizer, "adds_bos")) ? "added" : "not added");
    if (json_array_size(json_object_get(all, "tensors"))) printf("\ntensors\n");
    json_array_foreach(json_object_get(all, "tensors"), i, tensor) print_tensor(tensor);
}

/* ---- a config.json ---- */

static rp_status make_config(rp_ctx *ctx, const char *path, rp_report *report, json_t **out)
{
    rp_model_config config = { .family = NULL };
    rp_model_files *files  = NULL;

    rp_status status = rp__model_files_open(ctx, path, NULL, report, &files);
    if (status == RP_OK) status = rp__model_files_quantise(files, true, RP_F32);
    if (status == RP_OK) status = rp__model_files_map(files);
    if (status == RP_OK) status = rp__model_files_config(files, &config);
    if (status == RP_OK) status = rp__stand_in_config(ctx, &config, out);
    rp__model_config_drop(&config);
    rp__model_files_close(files);
    return status;
}

static int inspect_print_config(cli *c, const char *path)
{
    json_t *config = NULL;
    rp_report report;

    rp__report_open(&report, c->ctx);
    int code = cli_report_input(c, &report, make_config(c->ctx, path, &report, &config));
    if (code != CLI_GO) return code;
    char *text = rp__config_text(config);
    json_decref(config);
    if (!text) return cli_fail(c, rp_fail(c->ctx, RP_ERR_MEMORY, "cannot allocate host memory for the text of a config"));
    printf("%s\n", text);
    free(text);
    return cli_finish(c, RP_OK);
}

static int inspect(cli *c, const void *given, const cli_args *args)
{
    const inspect_fields *fields = given;
    int code                     = cli_find_model(c, args->word[0]);

    if (code != CLI_GO) return code;
    if (fields->config) return inspect_print_config(c, args->word[0]);
    json_t *all      = json_object();
    rp_status status = gather(c, args->word[0], all);
    if (status == RP_OK && fields->json) {
        cli_print_json(all, JSON_COMPACT);
    } else {
        if (status == RP_OK) print_table(all);
        json_decref(all);
    }
    return status == RP_OK ? cli_finish(c, RP_OK) : cli_fail_input(c, status);
}

static const cli_option options[] = {
    { "json", 0, CLI_FLAG, offsetof(inspect_fields, json), NULL, "print one JSON object", 0, 0 },
    { "config", 0, CLI_FLAG, offsetof(inspect_fields, config), NULL, "print only a config.json with the types of weights, for 'model.stand_in'", 0, 0 },
};

const cli_command cmd_inspect = {
    .usage = "MODEL|FILE [--json|--config] [--bytes]",
    .about = "Show the tensors, shapes and dtypes of a model, its config and its tokenizer. MODEL is a Hugging Face folder, a .gguf\n"
             "file or the folder of an adapter, FILE a .safetensors file.",
    .example = "reprise inspect models/SmolLM2-135M",
    CLI_OPTIONS(inspect_fields, options),
    .least_words = 1, .most_words = 1, .sizes = true,
    .run = inspect,
};

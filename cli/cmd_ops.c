/* cli/cmd_ops.c -- ops: the list of ops with their declarations, and the kernels that run them.
 *
 * Everything is collected in one JSON array first. --json prints it, and the text is made from it:
 *   [{ name, inputs, outputs, slots, needs: { in: [0, …], out, slot }, flags: ["random", …], gradient, kernels: [name, …], levels: ["v4", …] }]
 * The kernels of an op are those of kernels.def whose names begin with its name, or the prefixes of its line in `borrowed`. */
#include "cli/cli.h"

#include "kernels/kernels.h"
#include "ops/call.h"

typedef struct { bool json; } ops_fields;

static const struct { const char *op, *prefix[2]; } borrowed[] = {
    { "matmul", { "gemm", "column_sum" } },
    { "batched_matmul", { "gemm" } },
    { "gather", { "gather_forward", "gather_backward" } },
    { "linear_cross_entropy", { "gemm", "cross_entropy" } },
#define RP_UNARY(NAME, name) { #name, { "unary" } },
#define RP_BINARY(NAME, name) { #name, { "binary" } },
#include "kernels/pointwise.def"
    { "gelu", { "unary" } },
    { "mse", { "mse", "cross_entropy_total" } },
    { "cast", { "copy_strips" } },
    { "concat", { "copy_strips" } },
    { "split", { "copy_strips" } },
    { "mean", { "sum" } },
    { "spread", { "spread_rows", "gather_rows" } },
    { "grouped_matmul", { "gemm" } },
    { "combine", { "gather_rows", "spread_rows" } },
    { "expert_load", { "softmax_sums" } },
};

static const char *const kernel_names[] = {
#define RP_KERNEL(name, prototype) #name,
#include "kernels/kernels.def"
#undef RP_KERNEL
};

static bool has_kernel(const rp_kernels *table, const char *name)
{
#define RP_KERNEL(kernel, prototype) if (!strcmp(name, #kernel)) return table->kernel != NULL;
#include "kernels/kernels.def"
#undef RP_KERNEL
    return false;
}

/* "sum" and "sum_forward" begin with "sum"; "sum_squares" belongs to an optimizer. */
static bool begins_with(const char *kernel, const char *prefix)
{
    size_t n = strlen(prefix);

    return !strncmp(kernel, prefix, n) && (!kernel[n] || kernel[n] == '_') && strcmp(kernel, "sum_squares");
}

static bool runs(const char *kernel, const char *op)
{
    for (int i = 0; i < RP_COUNT(borrowed); i++) {
        if (strcmp(borrowed[i].op, op)) continue;
        const char *const *prefix = borrowed[i].prefix;
        return begins_with(kernel, prefix[0]) || (prefix[1] && begins_with(kernel, prefix[1]));
    }
    return begins_with(kernel, op);
}

static json_t *gather_kernels(const rp_op *op)
{
    json_t *list = json_array();

    for (int i = 0; i < RP_COUNT(kernel_names); i++)
        if (runs(kernel_names[i], op->name)) json_array_append_new(list, json_string(kernel_names[i]));
    return list;
}

/* The CPU levels of this machine that have all of these kernels. */
static json_t *gather_levels(const json_t *kernels)
{
    const rp_kernels *level[RP_MAX_LEVELS];
    json_t *list = json_array(), *name;
    size_t k;

    for (int i = 0, n = rp__kernels_levels(level, RP_COUNT(level)); i < n; i++) {
        bool all = json_array_size(kernels) > 0;
        json_array_foreach(kernels, k, name) all = all && has_kernel(level[i], json_string_value(name));
        if (all) json_array_append_new(list, json_string(level[i]->level));
    }
    return list;
}

static json_t *gather_needs(const rp_op *op)
{
    static const struct {
        const char *name;
        int first, n;
    } kind[] = { { "in", 0, RP_MAX_IN }, { "out", 8, RP_MAX_OUT }, { "slot", 16, RP_MAX_SLOT } };
    json_t *needs = json_object();

    for (int k = 0; k < RP_COUNT(kind); k++) {
        json_t *list = json_array();
        for (int i = 0; i < kind[k].n; i++)
            if (op->needs >> (kind[k].first + i) & 1) json_array_append_new(list, json_integer(i));
        json_object_set_new(needs, kind[k].name, list);
    }
    return needs;
}

static json_t *gather_flags(const rp_op *op)
{
    static const struct { uint32_t flag; const char *name; } flags[] = {
        { RP_OP_RANDOM, "random" }, { RP_OP_EFFECT, "effect" }, { RP_OP_COLLECTIVE, "collective" }, { RP_OP_VARIADIC, "variadic" },
        { RP_OP_GRAD_PASS, "grad_pass" }, { RP_OP_REPLAYS, "replays" }, { RP_OP_SUMS, "sums" }, { RP_OP_DECIDES, "decides" },
    };
    json_t *list = json_array();

    for (int i = 0; i < RP_COUNT(flags); i++)
        if (op->flags & flags[i].flag) json_array_append_new(list, json_string(flags[i].name));
    return list;
}

static json_t *gather(void)
{
    json_t *all = json_array();

    for (int i = 0; i < rp__op_count(); i++) {
        const rp_op *op = rp__op_at(i);
        json_t *kernels = gather_kernels(op), *levels = gather_levels(kernels);
        json_array_append_new(all, json_pack("{s:s, s:i, s:i, s:i, s:o, s:o, s:b, s:o, s:o}", "name", op->name, "inputs", op->n_in,
                                             "outputs", op->n_out, "slots", op->n_slot, "needs", gather_needs(op), "flags",
                                             gather_flags(op), "gradient", op->backward || op->flags & RP_OP_GRAD_PASS, "kernels",
                                             kernels, "levels", levels));
    }
    return all;
}

/* "v3, v4"; "-" for an empty list. */
static const char *joined(const json_t *list, char *out, size_t out_bytes)
{
    size_t used = 0, i;
    json_t *item;

    snprintf(out, out_bytes, "-");
    json_array_foreach(list, i, item)
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s", i ? ", " : "", json_string_value(item));
    return out;
}

/* "in 0 1, slot 0" */
static const char *needs_of(const json_t *op, char *out, size_t out_bytes)
{
    size_t used = 0, i;
    const char *kind;
    json_t *list, *item;

    snprintf(out, out_bytes, "-");
    json_object_foreach(json_object_get(op, "needs"), kind, list) {
        if (!json_array_size(list)) continue;
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s", used ? ", " : "", kind);
        json_array_foreach(list, i, item)
            used += (size_t)snprintf(out + used, out_bytes - used, " %d", (int)json_integer_value(item));
    }
    return out;
}

static int number(const json_t *op, const char *key) { return (int)json_integer_value(json_object_get(op, key)); }

static void print_table(const json_t *all)
{
    char needs[256], flags[128], levels[64];
    json_t *op;
    size_t i;

    printf("%-20s  %-3s %-4s %-6s %-25s  %-12s  %s\n", "op", "in", "out", "slots", "backward reads", "kernels", "flags");
    json_array_foreach(all, i, op)
        printf("%-20s  %-3d %-4d %-6d %-25s  %-12s  %s\n", json_string_value(json_object_get(op, "name")), number(op, "inputs"),
               number(op, "outputs"), number(op, "slots"), needs_of(op, needs, sizeof needs),
               joined(json_object_get(op, "levels"), levels, sizeof levels), joined(json_object_get(op, "flags"), flags, sizeof flags));
}

static int list_ops(cli *c, const void *given, const cli_args *args)
{
    const ops_fields *fields = given;
    json_t *all              = gather();

    (void)args;
    if (fields->json) {
        cli_print_json(all, 0);
    } else {
        print_table(all);
        json_decref(all);
    }
    return cli_finish(c, RP_OK);
}

static const cli_option options[] = {
    { "json", 0, CLI_FLAG, offsetof(ops_fields, json), NULL, "print one JSON array, kernels by name", 0, 0 },
};

const cli_command cmd_ops = {
    .usage = "",
    .about = "List the ops: inputs, outputs and slots, the tensors that the backward of each reads (in, out, slot and their\n"
             "numbers), the CPU levels of this machine that have kernels for it, and its flags. Rules and save lists use these names.",
    .example = "reprise ops --json",
    CLI_OPTIONS(ops_fields, options),
    .run = list_ops,
};

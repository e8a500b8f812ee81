/* 04_every_kth_layer -- choose the blocks that are recomputed: by conditions as recipes write them, and by one in C.
 */
#include "tiny.h"

enum { LINE = 128 };

typedef struct { rp_module_condition condition; void *user; char *out; } chosen;

static void add_number(const char *path, rp_module *module, void *user)
{
    chosen *c = user;
    int64_t number;

    if (c->condition(path, module, c->user) && rp_path_layer(path, &number))
        snprintf(c->out + strlen(c->out), LINE - strlen(c->out), " %d", (int)number);
}

/* Prints the numbers of the blocks for which the condition holds, runs a pass with them, and then chooses none. */
static void pass_with(tiny *t, const char *what, rp_module_condition condition, void *user)
{
    char line[LINE];

    snprintf(line, sizeof line, "%s:", what);
    rp_module_walk(t->root, add_number, &(chosen){ condition, user, line });
    rp_module_checkpoint(t->root, condition, user);
    tiny_pass(t, line);
    rp_module_checkpoint(t->root, NULL, NULL);
}

static void pass_with_text(tiny *t, const char *text)
{
    rp_condition *condition;

    must(t->ctx, rp_condition_read(t->ctx, text, &condition));
    pass_with(t, text, rp_condition_holds, condition);
    rp_condition_free(condition);
}

/* Backward begins with the last block and reads its slots at once, so recomputing it seldom lowers the peak. */
static bool not_the_last(const char *path, const rp_module *module, void *user)
{
    const int64_t *n_blocks = user;
    int64_t number;

    return !strcmp(rp_module_type(module), "TransformerBlock") && rp_path_layer(path, &number) && number < *n_blocks - 1;
}

int main(int argc, char **argv)
{
    tiny t           = tiny_open(argc, argv);
    int64_t n_blocks = 4;

    tiny_pass(&t, "none");
    pass_with_text(&t, "{ every_k_layers: { k: 2 } }");
    pass_with_text(&t, "{ every_k_layers: { k: 2, offset: 1 } }");
    pass_with_text(&t, "{ layers: [0, 2-3] }");
    pass_with(&t, "all but the last", not_the_last, &n_blocks);
    tiny_close(&t);
    return 0;
}

/* It prints:
none                                         2176000 bytes saved, gradients bit-identical
{ every_k_layers: { k: 2 } }: 1 3            1186816 bytes saved, gradients bit-identical
{ every_k_layers: { k: 2, offset: 1 } }: 0 2 1186816 bytes saved, gradients bit-identical
{ layers: [0, 2-3] }: 0 2 3                   692224 bytes saved, gradients bit-identical
all but the last: 0 1 2                       692224 bytes saved, gradients bit-identical
*/

/* 02_checkpointing -- forward and backward of a small Llama, without and with activation checkpointing: the gradients are
 * bit-identical, and the memory is smaller. tiny.h has the model and the pass.
 */
#include "tiny.h"

static bool every_block(const char *path, const rp_module *module, void *user)
{
    (void)path, (void)user;
    return !strcmp(rp_module_type(module), "TransformerBlock");
}

/* The user's own condition: the blocks whose number is even. */
static bool even_blocks(const char *path, const rp_module *module, void *user)
{
    int64_t number;

    return every_block(path, module, user) && rp_path_layer(path, &number) && number % 2 == 0;
}

int main(int argc, char **argv)
{
    tiny t = tiny_open(argc, argv);

    tiny_pass(&t, "keep everything");

    rp_module_checkpoint(t.root, every_block, NULL);
    tiny_pass(&t, "recompute every block");

    rp_module_checkpoint(t.root, NULL, NULL);         /* a call adds to the choice; without a condition it takes all back */
    tiny_pass(&t, "keep everything again");

    rp_module_checkpoint(t.root, even_blocks, NULL);
    tiny_pass(&t, "recompute even blocks");

    tiny_close(&t);
    return 0;
}

/* It prints:
keep everything                              2176000 bytes saved, gradients bit-identical
recompute every block                         197632 bytes saved, gradients bit-identical
keep everything again                        2176000 bytes saved, gradients bit-identical
recompute even blocks                        1186816 bytes saved, gradients bit-identical
*/

/* 10_offload -- slots are written to disk while the forward runs, and prefetched for the backward. The files are unlinked as soon as they are
 * open, so a killed program leaves none.
 */
#define _XOPEN_SOURCE 700             /* mkdtemp */
#include <unistd.h>

#include "tiny.h"

static void pass_with(tiny *t, const char *what, const char *rules)
{
    rp_policy *policy;

    must(t->ctx, rp_policy_read(t->ctx, "rules", rules, &policy));
    rp_set_policy(t->ctx, policy);
    tiny_pass(t, what);
    rp_set_policy(t->ctx, NULL);
    rp_policy_free(policy);
}

static bool every_block(const char *path, const rp_module *module, void *user)
{
    (void)path, (void)user;
    return !strcmp(rp_module_type(module), "TransformerBlock");
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/reprise-offload-XXXXXX";
    tiny t        = tiny_open(argc, argv);

    if (!mkdtemp(folder)) return 1;
    tiny_pass(&t, "no offload");
    must(t.ctx, rp_set_offload(t.ctx, &(rp_offload_options){ .folder = folder, .buffer_bytes = 1 << 20 }));
    pass_with(&t, "offload all slots", "[{ op: '*', fate: offload }]");
    pass_with(&t, "offload slots above 16 KiB", "[{ larger_than: 16KiB, fate: offload }]");

    rp_module_checkpoint(t.root, every_block, NULL);
    tiny_pass(&t, "recompute every block");
    pass_with(&t, "recompute every block, offload its output", "[{ op: add, call: 1, fate: offload }]");

    must(t.ctx, rp_set_offload(t.ctx, NULL));
    puts(rmdir(folder) ? "the folder still has files" : "the folder is empty");
    tiny_close(&t);
    return 0;
}

/* It prints:
no offload                                   2176000 bytes saved, gradients bit-identical
offload all slots                                  0 bytes saved, gradients bit-identical
offload slots above 16 KiB                    144384 bytes saved, gradients bit-identical
recompute every block                         197632 bytes saved, gradients bit-identical
recompute every block, offload its output      66560 bytes saved, gradients bit-identical
the folder is empty
*/

/* 10_offload -- slots go to disk behind the forward and come back ahead of the backward. The files are unlinked when they are made: a
 * program that is killed leaves nothing.
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
    pass_with(&t, "all slots away", "[{ op: '*', fate: offload }]");
    pass_with(&t, "those above 16 KiB away", "[{ larger_than: 16KiB, fate: offload }]");

    rp_module_checkpoint(t.root, every_block, NULL);
    tiny_pass(&t, "blocks");
    pass_with(&t, "blocks, what they hand on away", "[{ op: add, call: 1, fate: offload }]");

    must(t.ctx, rp_set_offload(t.ctx, NULL));
    puts(rmdir(folder) ? "something is left in the folder" : "nothing is left in the folder");
    tiny_close(&t);
    return 0;
}

/* 06_policy -- a policy that is a function with a state: keep every second product. It is asked once for each slot of a shape of step,
 * and its answers are used for every later one; `reset` comes before, so that it would answer alike.
 */
#include "tiny.h"

typedef struct { int n_products, n_asked, n_resets; } counter;

static rp_fate every_second_product(const rp_slot_info *slot, void *user)
{
    counter *c = user;

    c->n_asked++;
    if (strcmp(slot->op, "matmul")) return RP_NO_FATE;        /* the region decides */
    return c->n_products++ % 2 == 0 ? RP_KEEP : RP_PREFER_RECOMPUTE;
}

static void reset(void *user)
{
    counter *c = user;

    c->n_products = 0;
    c->n_resets++;
}

/* A yes or no: true is RP_KEEP, false is RP_PREFER_RECOMPUTE. */
static bool is_small(const rp_slot_info *slot, void *user) { return slot->bytes <= *(const int64_t *)user; }

static bool every_block(const char *path, const rp_module *module, void *user)
{
    (void)path, (void)user;
    return !strcmp(rp_module_type(module), "TransformerBlock");
}

int main(int argc, char **argv)
{
    tiny t        = tiny_open(argc, argv);
    counter count = { 0, 0, 0 };
    int64_t most  = 16384;
    rp_policy *alternate, *small;

    must(t.ctx, rp_policy_new(t.ctx, "alternate", &alternate));
    must(t.ctx, rp_policy_call(alternate, every_second_product, reset, &count));
    must(t.ctx, rp_policy_new(t.ctx, "small", &small));
    must(t.ctx, rp_policy_keep_if(small, is_small, NULL, &most));

    tiny_pass(&t, "no regions");
    rp_module_checkpoint(t.root, every_block, NULL);
    tiny_pass(&t, "blocks");

    rp_set_policy(t.ctx, alternate);
    tiny_pass(&t, "blocks, every second product kept");
    tiny_pass(&t, "the same policy again");
    printf("asked about %d slots, %d of them products; reset %d time\n", count.n_asked, count.n_products, count.n_resets);

    rp_set_policy(t.ctx, NULL);
    rp_module_policy(rp_module_find(t.root, "layers.0"), small);      /* of one module alone */
    tiny_pass(&t, "blocks, the first one's small slots kept");
    rp_module_policy(rp_module_find(t.root, "layers.0"), NULL);

    rp_policy_free(alternate);
    rp_policy_free(small);
    tiny_close(&t);
    return 0;
}

/* It prints:
no regions                                   2176000 bytes saved, gradients bit-identical
blocks                                        197632 bytes saved, gradients bit-identical
blocks, every second product kept             787456 bytes saved, gradients bit-identical
the same policy again                         787456 bytes saved, gradients bit-identical
asked about 77 slots, 28 of them products; reset 1 time
blocks, the first one's small slots kept      233472 bytes saved, gradients bit-identical
*/

/* 05_rules -- which slots are kept, whichever module makes them: rules as recipes write them, inside regions and without any.
 *
 * A slot is held only if a rule keeps it and the backward or a replay reads it. Neither reads the output of the product `down`, so it is not
 * held even if a rule keeps all products.
 */
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

int main(int argc, char **argv)
{
    tiny t = tiny_open(argc, argv);
    rp_condition *blocks;

    must(t.ctx, rp_condition_read(t.ctx, "{ module_type: TransformerBlock }", &blocks));

    tiny_pass(&t, "no regions, no rules");
    pass_with(&t, "norms and swiglu op by op", "[{ type: Norm, fate: recompute }, { op: swiglu, fate: recompute }]");
    pass_with(&t, "norms op by op, except in the first layer",
              "[{ path: layers.0, fate: keep }, { type: Norm, fate: recompute }]");      /* the first rule that matches wins */

    rp_module_checkpoint(t.root, rp_condition_holds, blocks);
    rp_condition_free(blocks);
    tiny_pass(&t, "blocks");
    pass_with(&t, "blocks, attention kept", "[{ op: attention, fate: keep }]");
    pass_with(&t, "blocks, products and attention kept", "[{ op: matmul, fate: keep }, { op: attention, fate: keep }]");
    pass_with(&t, "blocks, every second product kept", "[{ op: matmul, every: 2, fate: keep }]");
    pass_with(&t, "blocks, everything in the last one kept", "[{ path: layers.3, fate: keep }]");

    tiny_close(&t);
    return 0;
}

/* It prints:
no regions, no rules                         2176000 bytes saved, gradients bit-identical
norms and swiglu op by op                    1483264 bytes saved, gradients bit-identical
norms op by op, except in the first layer    1943040 bytes saved, gradients bit-identical
blocks                                        197632 bytes saved, gradients bit-identical
blocks, attention kept                        336896 bytes saved, gradients bit-identical
blocks, products and attention kept          1516544 bytes saved, gradients bit-identical
blocks, every second product kept             787456 bytes saved, gradients bit-identical
blocks, everything in the last one kept       692224 bytes saved, gradients bit-identical
*/

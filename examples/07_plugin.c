/* 07_plugin -- conditions in a library, plugin/stages.c. A recipe names it in the same way, with a path relative to its folder, and commands
 * load it with --allow-plugins:
 *
 *   activation_checkpointing:
 *     conditions: [{ plugin: { library: ./stages.so, symbol: stage, args: { first: 1, last: 2 } } }]
 *
 * This program loads the library from its own folder.
 */
#include "tiny.h"

/* Replaces %s in the text by the path of the library. */
static const char *with_library(const char *text, const char *program, char *out, size_t room)
{
    char library[512];
    const char *slash = strrchr(program, '/');

    snprintf(library, sizeof library, "%.*s/stages.so", slash ? (int)(slash - program) : 1, slash ? program : ".");
    snprintf(out, room, text, library);
    return out;
}

int main(int argc, char **argv)
{
    tiny t = tiny_open(argc, argv);
    rp_condition *stage;
    rp_policy *small;
    char text[1024];

    tiny_pass(&t, "no regions");

    with_library("{ plugin: { library: '%s', symbol: stage, args: { first: 1, last: 2 } } }", argv[0], text, sizeof text);
    must(t.ctx, rp_condition_read(t.ctx, text, &stage));
    rp_module_checkpoint(t.root, rp_condition_holds, stage);
    tiny_pass(&t, "blocks 1 and 2");

    with_library("[{ plugin: { library: '%s', symbol: small_results, args: { op: matmul, most_bytes: 16384 } }, fate: keep }]", argv[0],
                 text, sizeof text);
    must(t.ctx, rp_policy_read(t.ctx, "small", text, &small));
    rp_set_policy(t.ctx, small);
    tiny_pass(&t, "blocks 1 and 2, except small products");

    rp_set_policy(t.ctx, NULL);
    rp_policy_free(small);
    rp_condition_free(stage);
    tiny_close(&t);
    return 0;
}

/* It prints:
no regions                                   2176000 bytes saved, gradients bit-identical
blocks 1 and 2                               1186816 bytes saved, gradients bit-identical
blocks 1 and 2, except small products        1252352 bytes saved, gradients bit-identical
*/

/* A library of conditions as a user writes one: it includes the public header and nothing else. */
#include <string.h>

#include "reprise/reprise.h"

RP_API bool every_kth(const char *path, const rp_module *module, const rp_slot_info *slot, const rp_args *args);

/* Asked about a module: is it every k-th of its list? About a slot: is it of the op, and small? */
bool every_kth(const char *path, const rp_module *module, const rp_slot_info *slot, const rp_args *args)
{
    const char *op = rp_args_text(args, "op", "matmul");

    if (slot) return !strcmp(slot->op, op) && (double)slot->bytes < rp_args_number(args, "below", 1e9);
    return !strcmp(rp_module_type(module), "TransformerBlock") && (path[strlen(path) - 1] - '0') % rp_args_int(args, "k", 2) == 0;
}

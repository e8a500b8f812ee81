/* A condition that notes when its library is loaded: it writes a line into the file that REPRISE_TEST_LOADED names, before any function of
 * it is asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reprise/reprise.h"

RP_API bool all(const char *path, const rp_module *module, const rp_slot_info *slot, const rp_args *args);

__attribute__((constructor)) static void mark(void)
{
    const char *name = getenv("REPRISE_TEST_LOADED");
    FILE *file       = name ? fopen(name, "a") : NULL;

    if (!file) return;
    fputs("loaded\n", file);
    fclose(file);
}

/* Holds for every block, and for every slot. */
bool all(const char *path, const rp_module *module, const rp_slot_info *slot, const rp_args *args)
{
    (void)path, (void)args;
    return slot || !strcmp(rp_module_type(module), "TransformerBlock");
}

/* A module of an MPI that does not start. */
#include <stdio.h>

#include "comm/engine.h"

static bool fail(rp_engine_group *world, char name[RP_ENGINE_NAME_CHARS], char *why)
{
    (void)world, (void)name;
    snprintf(why, RP_ENGINE_WHY_CHARS, "there is no network");
    return false;
}

extern __attribute__((visibility("default"))) const rp_engine RP_ENGINE_SYMBOL;
const rp_engine RP_ENGINE_SYMBOL = { .version = RP_ENGINE_VERSION, .open = fail };

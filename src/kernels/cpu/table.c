/* kernels/cpu/table.c -- one level's table. Compiled once per level, as all of this folder. */
#include "kernels/cpu/cpu.h"

const rp_kernels RP_AT_LEVEL(rp_table) = {
    .level = RP_LEVEL_TEXT,
};

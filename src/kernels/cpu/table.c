/* kernels/cpu/table.c -- the kernel table of one level. Compiled once per level, like all files of this folder. Every RP_KERNEL of kernels.def has its
 * function here; an op without a line runs its reference. */
#include "kernels/cpu/cpu.h"

const rp_kernels RP_AT_LEVEL(rp_table) = {
    .level = RP_LEVEL_TEXT,
#define RP_KERNEL(name, prototype) .name = RP_AT_LEVEL(name),
#define RP_DEVICE_KERNEL(name, prototype)
#include "kernels/kernels.def"
#undef RP_KERNEL
};

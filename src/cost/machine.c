/* cost/machine.c -- identifies the machine: name and model of the CPU, level of the kernels, number of threads. */
#include "cost/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/kernels.h"

enum { BRAND_CHARS = 49 };

/* The extended model digit counts from family 6 on; before, it is 0. */
void rp__cost_cpu_model(unsigned signature, unsigned *family, unsigned *model)
{
    unsigned base = signature >> 8 & 15;

    *family = base + (base == 15 ? signature >> 20 & 255 : 0);
    *model  = (signature >> 4 & 15) | (signature >> 12 & 0xf0);
}

#if defined(__x86_64__)
/* Remove "(R)", "(TM)", "CPU" and the text after "@", which carry no information, and repeated spaces. */
static void tidy(char *name)
{
    static const char *const noise[] = { "(R)", "(TM)", "(tm)", " CPU" };
    char *to = name;

    for (int i = 0; i < RP_COUNT(noise); i++)
        for (char *at = strstr(name, noise[i]); at; at = strstr(name, noise[i]))
            memmove(at, at + strlen(noise[i]), strlen(at + strlen(noise[i])) + 1);
    name[strcspn(name, "@")] = 0;
    for (const char *from = name; *from; from++)
        if (*from != ' ' || (to > name && to[-1] != ' ')) *to++ = *from;
    while (to > name && to[-1] == ' ') to--;
    *to = 0;
}

static void read_brand(char out[BRAND_CHARS])
{
    unsigned word[4] = { 0 };

    memset(out, 0, BRAND_CHARS);
    for (unsigned leaf = 0; leaf < 3; leaf++) {
        if (!__get_cpuid(0x80000002u + leaf, &word[0], &word[1], &word[2], &word[3])) break;
        memcpy(out + 16 * leaf, word, sizeof word);
    }
}

/* Virtual machines hide the number in the brand, but not the model. */
static void name_cpu(char *out, size_t out_bytes)
{
    char brand[BRAND_CHARS];
    unsigned a = 0, b, c, d, family, model;

    read_brand(brand);
    tidy(brand);
    __get_cpuid(1, &a, &b, &c, &d);
    rp__cost_cpu_model(a, &family, &model);
    snprintf(out, out_bytes, "%s %u-%u", brand[0] ? brand : "x86-64", family, model);
}
#elif defined(__aarch64__)
/* The main ID register has no name, but the maker and the part: 41-d40 is ARM's Neoverse V1. */
static void name_cpu(char *out, size_t out_bytes)
{
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", "r");
    char text[32];
    unsigned long long id = f && fgets(text, sizeof text, f) ? strtoull(text, NULL, 16) : 0;

    if (f) fclose(f);
    if (id) snprintf(out, out_bytes, "ARM64 %llx-%03llx", id >> 24 & 0xff, id >> 4 & 0xfff);
    else snprintf(out, out_bytes, "ARM64");
}
#else
static void name_cpu(char *out, size_t out_bytes) { snprintf(out, out_bytes, "unknown CPU"); }
#endif

/* Returns the common name of the instructions that a level uses for products. */
static const char *isa_of(const char *level)
{
    static const char *const known[][2] = {
        { "v3", "avx2" }, { "v4", "avx512" }, { "zen4", "avx512-bf16" },
#if defined(__aarch64__)
        { "base", "neon" }, { "mmla", "neon-bf16" },
#endif
    };

    for (int i = 0; i < RP_COUNT(known); i++)
        if (!strcmp(level, known[i][0])) return known[i][1];
    return level;
}

void rp__cost_machine_find(rp_ctx *ctx, rp_cost_machine *out)
{
    const rp_kernels *kernels = rp__kernels(ctx);
    const char *own           = kernels == rp__kernels_none() ? "" : "own ";

    *out = (rp_cost_machine){ .threads = ctx->threads };
    name_cpu(out->cpu, sizeof out->cpu);
    snprintf(out->level, sizeof out->level, "%s", kernels->level);
    snprintf(out->isa, sizeof out->isa, "%s", isa_of(kernels->level));
    for (int i = 0; i < 2; i++) snprintf(out->product[i], sizeof out->product[i], "%s%s", own, kernels->level);
}

bool rp__cost_machine_same(const rp_cost_machine *a, const rp_cost_machine *b)
{
    return a->threads == b->threads && !strcmp(a->cpu, b->cpu) && !strcmp(a->level, b->level) && !strcmp(a->isa, b->isa) &&
           !strcmp(a->product[0], b->product[0]) && !strcmp(a->product[1], b->product[1]);
}

void rp__cost_machine_name(const rp_cost_machine *m, char out[RP_COST_NAME_CHARS])
{
    snprintf(out, RP_COST_NAME_CHARS, "%s, %d thread%s, %s", m->cpu, m->threads, m->threads == 1 ? "" : "s", m->isa);
}

const char *rp__cost_machine_text(rp_ctx *ctx, char out[RP_COST_MACHINE_CHARS])
{
    rp_cost_machine here;

    rp__cost_machine_find(ctx, &here);
    rp__cost_machine_name(&here, out);
    return out;
}

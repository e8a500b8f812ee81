/* cost/device.c -- rows of a machine that is not there, from the peaks of its data sheet.
 *
 *   h100                                                       a line of devices.def
 *   h100, memory=40GB                                          … with another word on something
 *   name=mine, flops=200T, flops_fp32=30e12, bandwidth=1e12, memory=64GB, offload=25e9, link=100GB/s, node=8, node_link=25GB/s, latency=2us
 *
 * The seconds of a call are
 *
 *   kernels x 2.5 us + max((flops + longer) / rate, bytes / bandwidth)
 *
 * A small kernel takes 2.5 us in a graph. `longer` is the work at the edges of tiles: a product costs as much as one with longer sums, attention as
 * much as with more keys for each query. The shares of peaks and both lengths were measured on one H100 and one H200 (docs/gpu.md). Other devices
 * are assumed to reach the same shares of their own peaks.
 *
 *   products     0.72 in bf16, sums longer by 130. Single products reach 0.88, but after a second of them the card lowers its clock to stay within
 *                its power. 0.8 in fp32, sums longer by 40. 0.55 of the memory's peak, for those that it bounds
 *   head         a product whose softmax reads each logit once more, from memory
 *   attention    the shares of devices.def in bf16, else 0.6 forward and 0.5 backward (FlashAttention-2, arXiv 2307.08691, on an A100), of
 *                long sequences; 280 keys more
 *   the rest     0.85 of the memory's peak
 *   links        0.8 of their peaks, as large collectives reach them; a message takes 2 us besides, about what MPI and NCCL need to post and match
 *                one. A link that is not given is the link to the host
 */
#include "cost/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/collective.h"

typedef struct {
    char name[64];
    int64_t memory;
    double flops, flops_fp32, bandwidth, offload, link, node, node_link, latency;
    double attention[RP_COST_PASSES];   /* shares of flops */
    bool gpu;
} device;

#define LATENCY 2e-6                    /* seconds */
#define ATTENTION_FORWARD 0.6
#define ATTENTION_BACKWARD 0.5
#define KERNEL 2.5e-6                   /* seconds */
#define MEMORY_SHARE 0.85               /* shares of its peak */
#define THIN_SHARE 0.55
#define MORE_KEYS 280.0

typedef struct { double share, longer; } products;
static const products tensor_cores = { 0.72, 130 }, plain = { 0.8, 40 };

static const device shipped[] = {
#define RP_COST_DEVICE(name, memory, flops, flops_fp32, bandwidth, offload, link, node, node_link, forward, backward) \
    { name, memory, flops, flops_fp32, bandwidth, offload, link, node, node_link, LATENCY, { forward, backward }, true },
#include "cost/devices.def"
#undef RP_COST_DEVICE
};

enum { NAME, MEMORY, FLOPS, FLOPS_FP32, BANDWIDTH, OFFLOAD, LINK, NODE, NODE_LINK, LATENCY_KEY, KEYS };
static const char *const keys[KEYS + 1] = { "name", "memory", "flops", "flops_fp32", "bandwidth", "offload", "link", "node", "node_link", "latency", NULL };

typedef struct { char value[KEYS][64]; } fields;        /* "": not given */

/* ---- the text ---- */

/* A number above 0, with K M G T P behind it for powers of ten, and B/s if one likes: 989e12, 989T, 450GB/s. */
static bool read_rate(const char *text, double *out)
{
    static const char units[] = "KMGTP";
    size_t n        = strlen(text);
    char number[64] = "";

    if (n > 3 && (rp__ends_with(text, "B/s") || rp__ends_with(text, "Bps"))) n -= 3;
    const char *unit = n ? strchr(units, text[n - 1]) : NULL;
    long thousands   = unit ? unit - units + 1 : 0;

    snprintf(number, sizeof number, "%.*s", (int)(unit ? n - 1 : n), text);
    if (!rp__parse_double(number, out)) return false;
    while (thousands--) *out *= 1e3;
    return *out > 0 && *out < 1e21;
}

/* Seconds, or a number with s, ms, us or ns behind it. */
static bool read_time(const char *text, double *out)
{
    static const struct { const char *name; double a_second; } units[] = { { "ns", 1e9 }, { "us", 1e6 }, { "ms", 1e3 }, { "s", 1 } };
    char number[64] = "";
    double a_second = 1;
    size_t n        = strlen(text);

    for (int i = 0; i < RP_COUNT(units); i++) {
        if (!rp__ends_with(text, units[i].name)) continue;
        n -= strlen(units[i].name);
        a_second = units[i].a_second;
        break;
    }
    snprintf(number, sizeof number, "%.*s", (int)n, text);
    if (!rp__parse_double(number, out)) return false;
    *out /= a_second;
    return *out >= 0 && *out < 1e6;
}

static rp_status set_field(rp_ctx *ctx, const char *spec, const char *key, const char *value, fields *f)
{
    char hint[RP_HINT_CHARS];
    int k = 0;

    while (k < KEYS && strcmp(keys[k], key)) k++;
    RP_CHECK(ctx, k < KEYS, RP_ERR_CONFIG, "device '%s': unknown key '%s'%s", spec, key, rp__hint(key, keys, hint));
    RP_CHECK(ctx, !f->value[k][0], RP_ERR_CONFIG, "device '%s': %s is given twice", spec, key);
    RP_CHECK(ctx, *value && strlen(value) < sizeof f->value[k], RP_ERR_CONFIG, "device '%s': %s has no value one can use", spec, key);
    snprintf(f->value[k], sizeof f->value[k], "%s", value);
    return RP_OK;
}

/* One part between commas; spaces around it are nothing. Without "=" it is a name. */
static rp_status read_part(rp_ctx *ctx, const char *spec, const char *from, size_t n, fields *f)
{
    char part[128];

    while (n && *from == ' ') from++, n--;
    while (n && from[n - 1] == ' ') n--;
    RP_CHECK(ctx, n > 0 && n < sizeof part, RP_ERR_CONFIG, "device '%s': a part is %s", spec, n ? "too long" : "empty");
    snprintf(part, sizeof part, "%.*s", (int)n, from);
    char *equals = strchr(part, '=');
    if (!equals) return set_field(ctx, spec, "name", part, f);
    *equals = 0;
    return set_field(ctx, spec, part, equals + 1, f);
}

static rp_status read_fields(rp_ctx *ctx, const char *spec, fields *f)
{
    for (const char *at = spec;; at++) {
        size_t n = strcspn(at, ",");
        RP_TRY(read_part(ctx, spec, at, n, f));
        at += n;
        if (!*at) return RP_OK;
    }
}

static rp_status take_rate(rp_ctx *ctx, const char *spec, const fields *f, int key, double *out)
{
    const char *text = f->value[key];

    RP_CHECK(ctx, !*text || read_rate(text, out), RP_ERR_CONFIG, "device '%s': %s is '%s', expected a number above 0 such as 989e12 or 989T",
             spec, keys[key], text);
    return RP_OK;
}

static rp_status take_node(rp_ctx *ctx, const char *spec, const char *text, double *out)
{
    int64_t ranks;

    if (!*text) return RP_OK;
    RP_CHECK(ctx, rp__parse_int(text, 1, RP_MOST_RANKS, &ranks), RP_ERR_CONFIG,
             "device '%s': node is '%s', expected a number of ranks such as 8", spec, text);
    *out = (double)ranks;
    return RP_OK;
}

static rp_status take_values(rp_ctx *ctx, const char *spec, const fields *f, device *d)
{
    const char *memory = f->value[MEMORY], *latency = f->value[LATENCY_KEY];

    RP_CHECK(ctx, !*memory || (rp__size_parse(memory, &d->memory) && d->memory > 0), RP_ERR_CONFIG,
             "device '%s': memory is '%s', expected a size above 0 such as 80GB", spec, memory);
    RP_TRY(take_rate(ctx, spec, f, FLOPS, &d->flops));
    RP_TRY(take_rate(ctx, spec, f, FLOPS_FP32, &d->flops_fp32));
    RP_TRY(take_rate(ctx, spec, f, BANDWIDTH, &d->bandwidth));
    RP_TRY(take_rate(ctx, spec, f, LINK, &d->link));
    RP_TRY(take_rate(ctx, spec, f, NODE_LINK, &d->node_link));
    RP_TRY(take_node(ctx, spec, f->value[NODE], &d->node));
    RP_CHECK(ctx, !*latency || read_time(latency, &d->latency), RP_ERR_CONFIG, "device '%s': latency is '%s', expected a time such as 10us",
             spec, latency);
    return take_rate(ctx, spec, f, OFFLOAD, &d->offload);
}

static const device *find_shipped(const char *name)
{
    for (int i = 0; i < RP_COUNT(shipped); i++)
        if (!strcmp(shipped[i].name, name)) return &shipped[i];
    return NULL;
}

/* A name that is not shipped needs figures of its own. Tensor cores multiply bf16 about 15 times as fast as fp32 is without them. */
static rp_status complete(rp_ctx *ctx, const char *spec, device *d)
{
    const char *names[RP_COUNT(shipped) + 1] = { NULL };
    char hint[RP_HINT_CHARS];

    for (int i = 0; i < RP_COUNT(shipped); i++) names[i] = shipped[i].name;
    RP_CHECK(ctx, d->flops > 0 || d->bandwidth > 0 || !d->name[0], RP_ERR_CONFIG,
             "unknown device '%s'%s; another one is described as name=%s, memory=80GB, flops=989e12, bandwidth=3.35e12", d->name,
             rp__hint(d->name, names, hint), d->name);
    RP_CHECK(ctx, d->flops > 0 && d->bandwidth > 0, RP_ERR_CONFIG, "device '%s': %s is missing", spec, d->flops > 0 ? "bandwidth" : "flops");
    RP_CHECK(ctx, (d->node > 0) == (d->node_link > 0), RP_ERR_CONFIG, "device '%s': %s is missing", spec, d->node > 0 ? "node_link" : "node");
    if (d->flops_fp32 <= 0) d->flops_fp32 = d->flops / 15;
    if (!d->name[0]) snprintf(d->name, sizeof d->name, "device");
    return RP_OK;
}

static rp_status read_device(rp_ctx *ctx, const char *spec, device *d)
{
    fields f = { 0 };

    *d = (device){ .latency = LATENCY, .attention = { ATTENTION_FORWARD, ATTENTION_BACKWARD } };
    RP_TRY(read_fields(ctx, spec, &f));
    const device *known = find_shipped(f.value[NAME]);
    if (known) *d = *known;
    else snprintf(d->name, sizeof d->name, "%s", f.value[NAME]);
    RP_TRY(take_values(ctx, spec, &f, d));
    return complete(ctx, spec, d);
}

/* ---- the rows ---- */

static void set_row(rp_cost_table *t, const rp_op *op, rp_dtype dtype, rp_pass pass, rp_cost_row row)
{
    *rp__cost_row(t, rp__cost_place(op), dtype, pass) = row;
}

static double attention_share(const device *d, rp_dtype dtype, rp_pass pass)
{
    return dtype == RP_BF16 ? d->attention[pass] : pass == RP_FORWARD ? ATTENTION_FORWARD : ATTENTION_BACKWARD;
}

static void set_pass(rp_cost_table *t, const device *d, rp_dtype dtype, rp_pass pass)
{
    const products *p = dtype == RP_BF16 ? &tensor_cores : &plain;
    int back          = pass == RP_BACKWARD;
    double peak = dtype == RP_BF16 ? d->flops : dtype == RP_F32 ? d->flops_fp32 : d->flops_fp32 / 2, element = (double)rp_dtype_bytes(dtype);
    double memory = MEMORY_SHARE * d->bandwidth, thin = THIN_SHARE * d->bandwidth, rate = p->share * peak, longer = 2 * p->longer / element;
    double seen = (back ? 10.0 / 3 : 4) * MORE_KEYS / element;      /* five products for three gradients, two for one result */

    set_row(t, &rp_op_matmul, dtype, pass, (rp_cost_row){ (1 + back) * KERNEL, rate, thin, longer });
    set_row(t, &rp_op_batched_matmul, dtype, pass, (rp_cost_row){ (1 + back) * KERNEL, rate, thin, longer });
    set_row(t, &rp_op_grouped_matmul, dtype, pass, (rp_cost_row){ (1 + back) * KERNEL, rate, thin, longer });
    set_row(t, &rp_op_linear_cross_entropy, dtype, pass, (rp_cost_row){ (2 + 2 * back) * KERNEL, rate, thin, longer + rate / memory });
    set_row(t, &rp_op_attention, dtype, pass, (rp_cost_row){ (1 + 2 * back) * KERNEL, attention_share(d, dtype, pass) * peak, memory, seen });
    set_row(t, NULL, dtype, pass, (rp_cost_row){ KERNEL, 0.5 * d->flops_fp32, memory, 0 });
    t->move[dtype] = memory;
}

rp_status rp__cost_table_device(rp_ctx *ctx, const char *spec, rp_cost_table **out)
{
    device d;
    rp_cost_table *t;

    RP_TRY(read_device(ctx, spec, &d));
    RP_TRY(rp__cost_table_new(ctx, RP_COST_OF_DEVICE, &t));
    snprintf(t->name, sizeof t->name, "%s", d.name);
    for (int i = 0; i < RP_COUNT(rp__cost_dtypes); i++)
        for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) set_pass(t, &d, rp__cost_dtypes[i], pass);
    t->move[RP_U8] = t->move[RP_F32];           /* not measured on a device */
    t->memory  = d.memory;
    t->gpu     = d.gpu;
    t->offload = 0.8 * d.offload;
    t->link    = 0.8 * (d.link > 0 ? d.link : d.offload);
    t->node      = (int64_t)d.node;
    t->node_link = 0.8 * d.node_link;
    t->latency   = d.latency;
    t->overlap    = true;
    *out         = t;
    return RP_OK;
}

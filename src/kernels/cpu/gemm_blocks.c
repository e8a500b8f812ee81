/* kernels/cpu/gemm_blocks.c -- cuts products into parts for the team.
 *
 *                 n ->   part 0 | part 1 | part 2 …        A part is a block of C. Its thread packs the block's panels of B into its own
 *            +---+ +-----------+--------+--------+         scratch and multiplies the strips of A by them. So B is packed once and stays
 *     m  A   | s | |           |        |        |         in the second-level cache, a strip in the first. If all of k does not fit,
 *            | t | |           |        |        |         depth blocks follow each other and add to the block's sums.
 *     |      | r | |           |        |        |
 *     v      | i | |           |        |        |         A is read in place. If that is impossible (its rows run along m, another
 *            | p | |           |        |        |         dtype, an odd depth), the team first packs stretches of its rows, which all
 *            +---+ +-----------+--------+--------+         parts read. Exception: if all of B fits, or a depth block of it while the
 *                                                          sums are in C, parts are cut along m and each packs its own rows.
 *
 *   scratch   [ A of a stretch, packed ] [ of each thread:  panels | sums | a tile | strips ]
 *
 * If C is fp32, sums are accumulated in C, else in the thread's scratch until the last depth block. An element of C is the sum of one chain per
 * depth block, in every part. So its bits depend only on k, `adds` and the level, not on m, n or the threads.
 */
#include "kernels/cpu/gemm_engine.h"
#include "kernels/cpu/pack.h"

#include "base/team.h"

enum {                              /* sizes by measurement, with second-level caches of 1 MiB (Zen 5) and 2 MiB (Xeon) */
    WHOLE_BYTES   = 1 << 20,        /* most of B in a thread's scratch if it covers all of k */
    ALL_BYTES     = 1536 << 10,     /* most of B if it is all of B, packed by every thread */
    PANELS_BYTES  = 512 << 10,      /* most of B if it is one depth block, which shares the cache with sums */
    SUMS_BYTES    = 1280 << 10,
    FEWEST_PANELS = 4,              /* fewest panels for which reading a strip pays */
    FEWEST_ROWS   = 64,             /* fewest rows per thread for which packing depth blocks of all panels pays */
    STRETCH_BYTES = 8 << 20,        /* of A packed at a time */
    SHARED_BYTES  = 4 << 20,        /* largest A, which every part reads, for which PARTS_A_THREAD applies */
    PARTS_A_THREAD = 2,             /* parts per thread, so that others can help a thread that loses its core */
    STRIPS_A_PACK = 4,              /* strips packed together, so that memory is read in long runs */
    MOST_COLUMNS  = 64,             /* of an engine's tile */
};

typedef struct {
    const gemm_engine *e;
    int64_t k, depth, n_depth, at_once;             /* k padded; depth of a depth block; number of them; number of them in the panels at once */
    int64_t n_columns, block_columns;               /* parts along n, and the widest of them */
    int64_t stretch, block_rows, n_rows;            /* rows of A packed at a time; rows of a part; parts along the rows */
    bool reads_a, packs_own;                        /* A is read in place; each part packs its own rows */
    int64_t packed_bytes, panels_bytes, sums_bytes, tile_bytes, strips_bytes, thread_bytes;
} cut;

static int64_t ceiling(int64_t n, int64_t d) { return (n + d - 1) / d; }
static int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }

/* Depth blocks of about equal size, padded. */
static void cut_depth(const rp_gemm *g, cut *c)
{
    c->k       = gemm_up(g->k, c->e->step);
    c->n_depth = most_of(ceiling(c->k, c->e->depth), 1);
    c->depth   = most_of(gemm_up(ceiling(c->k, c->n_depth), c->e->step), c->e->step);
    c->n_depth = most_of(ceiling(c->k, c->depth), 1);
}

/* Whether every thread packs panels of all columns for its own rows. The panels cover all of k, or one depth block at a time if sums are
 * accumulated in C. */
static bool packs_all_columns(const rp_gemm *g, const cut *c, int64_t all_panels)
{
    if (g->m < g->on.threads * c->e->rows) return false;
    if (all_panels <= ALL_BYTES) return !c->reads_a || g->n < g->m;
    return !c->reads_a && g->c == RP_F32 && g->m >= g->on.threads * FEWEST_ROWS && all_panels / c->n_depth <= ALL_BYTES;
}

/* Columns: as many as the room for panels allows, in parts that divide the panels evenly among the threads. */
static void cut_columns(const rp_gemm *g, cut *c)
{
    int64_t panels = ceiling(g->n, c->e->columns), panel = most_of(c->k, c->depth) * c->e->columns * c->e->element;
    int64_t room   = WHOLE_BYTES / panel;
    bool shares    = g->m * g->k * c->e->element <= SHARED_BYTES && panels >= 4 * PARTS_A_THREAD * g->on.threads;
    bool all       = packs_all_columns(g, c, panels * panel);
    bool whole     = all ? panels * panel <= ALL_BYTES : room >= gemm_least(panels, FEWEST_PANELS);

    c->packs_own = all && !c->reads_a;
    c->at_once   = whole ? c->n_depth : 1;
    if (c->at_once < c->n_depth) room = most_of(PANELS_BYTES / (c->depth * c->e->columns * c->e->element), 1);
    c->n_columns = most_of(ceiling(panels, most_of(room, 1)), (shares && c->reads_a ? PARTS_A_THREAD : 1) * g->on.threads);
    c->n_columns = all ? 1 : gemm_least(panels, gemm_up(c->n_columns, g->on.threads));
    c->block_columns = ceiling(panels, c->n_columns) * c->e->columns;
}

/* Rows: all of the stretch, but at most as many as have sums in cache between depth blocks, and enough parts for the team. */
static void cut_rows(const rp_gemm *g, cut *c)
{
    int64_t strips = ceiling(c->stretch, c->e->rows), parts = 1;

    if (c->at_once < c->n_depth && !c->packs_own) parts = ceiling(c->stretch * c->block_columns * (int64_t)sizeof(float), SUMS_BYTES);
    c->n_rows     = gemm_least(strips, most_of(parts, ceiling(g->on.threads, c->n_columns)));
    c->block_rows = ceiling(strips, c->n_rows) * c->e->rows;
    c->n_rows     = ceiling(c->stretch, c->block_rows);
}

/* A whole block of sums is needed only if other strips are processed between depth blocks; else the sums of one strip suffice. */
static int64_t sums_rows(const rp_gemm *g, const cut *c)
{
    if (g->c == RP_F32 || c->n_depth == 1) return 0;
    return c->at_once < c->n_depth ? c->block_rows : c->e->rows;
}

static void cut_up(const rp_gemm *g, cut *c)
{
    const gemm_engine *e = RP_AT_LEVEL(gemm_engine_for)(g);
    int64_t rows         = most_of(g->m, 1);

    *c = (cut){ .e = e, .reads_a = e->reads_a(g), .stretch = rows };
    cut_depth(g, c);
    cut_columns(g, c);
    int64_t strip = e->rows * c->k * e->element;
    if (!c->reads_a && !c->packs_own) {
        c->stretch      = gemm_least(gemm_up(rows, e->rows), gemm_up(ceiling(STRETCH_BYTES, most_of(strip, 1)), 8) * e->rows);
        c->packed_bytes = rp__align_up(ceiling(c->stretch, e->rows) * strip);
    }
    cut_rows(g, c);
    c->panels_bytes = rp__align_up(c->at_once * c->depth * c->block_columns * e->element);
    c->sums_bytes   = rp__align_up(sums_rows(g, c) * c->block_columns * (int64_t)sizeof(float));
    c->tile_bytes   = rp__align_up(e->rows * e->columns * (int64_t)sizeof(float));
    c->strips_bytes = rp__align_up((c->packs_own ? STRIPS_A_PACK : 1) * e->rows * c->at_once * c->depth * e->element);
    c->thread_bytes = c->panels_bytes + c->sums_bytes + c->tile_bytes + c->strips_bytes;
}

/* A depth block is padded by less than a step, so n of them together exceed k by less than n steps. */
static int64_t padded_most(int64_t k, const gemm_engine *e)
{
    int64_t deep = gemm_up(k, e->step);

    return most_of(deep + ceiling(deep, e->depth) * e->step, e->step);
}

/* At most panels of all columns, and never more than the limits above plus the padding of depth blocks. */
static int64_t panels_most(const rp_gemm *g, const gemm_engine *e)
{
    int64_t block = gemm_up(e->depth, e->step) * e->columns * e->element, room = most_of(ALL_BYTES + ALL_BYTES / 8, block);

    return gemm_least(gemm_up(g->n, e->columns) * padded_most(g->k, e) * e->element, room);
}

/* 0 if one depth block holds all of k. Else the sums of a strip, or of a part: as many rows as SUMS_BYTES hold, rounded up. */
static int64_t sums_most(const rp_gemm *g, const gemm_engine *e)
{
    int64_t row = gemm_up(g->n, e->columns) * (int64_t)sizeof(float);

    if (g->c == RP_F32 || gemm_up(g->k, e->step) <= e->depth) return 0;
    return gemm_least((gemm_up(g->m, e->rows) + e->rows) * row, SUMS_BYTES + 3 * e->rows * row);
}

/* A stretch is all rows, or as many as STRETCH_BYTES hold, rounded up to eight strips. */
static int64_t packed_most(const rp_gemm *g, const gemm_engine *e)
{
    int64_t row = gemm_up(most_of(g->k, 1), e->step) * e->element;

    return gemm_least(gemm_up(most_of(g->m, 1), e->rows) * row, STRETCH_BYTES + 9 * e->rows * row);
}

/* ---- one tile ---- */

typedef struct {
    const rp_gemm *g;
    cut how;
    const void *a, *b, *bias;
    void *c;
    uint8_t *packed, *threads;
    int64_t from, to, n_rows, n_packs;      /* of the stretch: its rows, parts along the rows, parts of packing them */
} product;

typedef struct {
    uint8_t *panels, *sums, *tile, *strips;
    int64_t row, end;               /* rows of the part */
    int64_t from, to;               /* columns */
    int64_t k, depth;               /* range of k that panels and packed strips currently hold */
} room;

typedef struct { int64_t i, j, rows, columns; } place;      /* position and size of a tile in C */

static bool is_whole(const product *p, const place *at) { return at->rows == p->how.e->rows && at->columns == p->how.e->columns; }

static void add_bias(const product *p, const place *at, float *sum, int64_t sum_row)
{
    float bias[MOST_COLUMNS];

    for (int64_t j = 0; j < at->columns; j++) bias[j] = load_one(p->g->ab, p->bias, at->j + j);
    for (int64_t r = 0; r < at->rows; r++)
#pragma omp simd
        for (int64_t j = 0; j < at->columns; j++) sum[r * sum_row + j] += bias[j];
}

static void copy_tile(const place *at, const float *from, int64_t from_row, float *to, int64_t to_row)
{
    for (int64_t r = 0; r < at->rows; r++) memcpy(to + r * to_row, from + r * from_row, (size_t)at->columns * sizeof *to);
}

/* Accumulates in C. A tile that is not whole goes through the thread's tile buffer. */
static void tile_in_c(const product *p, const place *at, int64_t depth, gemm_strip a, const void *b, bool adds, bool last, float *tile,
                      const prefetch lists[N_PREFETCH])
{
    const gemm_engine *e = p->how.e;
    int64_t n            = p->g->n;
    float *c             = (float *)p->c + at->i * n + at->j;

    if (is_whole(p, at)) e->multiply(depth, a, b, c, n, adds, lists);
    else {
        memset(tile, 0, (size_t)p->how.tile_bytes);
        if (adds) copy_tile(at, c, n, tile, e->columns);
        e->multiply(depth, a, b, tile, e->columns, adds, lists);
        copy_tile(at, tile, e->columns, c, n);
    }
    if (last && p->bias) add_bias(p, at, c, n);
}

static void put_tile(const product *p, const place *at, float *sum)
{
    const rp_gemm *g = p->g;
    int64_t columns  = p->how.e->columns;

    if (p->bias) add_bias(p, at, sum, columns);
    if (is_whole(p, at) && !g->adds) {
        p->how.e->to_bf16(sum, (uint16_t *)p->c + at->i * g->n + at->j, g->n);
        return;
    }
    for (int64_t r = 0; r < at->rows; r++)
        row_store_add(g->c, p->c, (at->i + r) * g->n + at->j, at->columns, sum + r * columns, g->adds);
}

/* ---- one part ---- */

/* The strip at row i, from the part's current k on. */
static gemm_strip strip_at(const product *p, int64_t i, const room *own)
{
    const rp_gemm *g     = p->g;
    const gemm_engine *e = p->how.e;
    int64_t rows = gemm_least(e->rows, p->to - i), together = STRIPS_A_PACK * e->rows;
    gemm_strip strip = { (const uint8_t *)p->a + i * g->k * e->element, g->k, 1 };

    if (p->how.packs_own) {
        int64_t at = (i - own->row) % together;
        if (at == 0) e->pack_a(g, p->a, i, gemm_least(together, own->end - i), own->k, own->depth, own->strips);
        return e->packed(g, own->strips + at * own->depth * e->element, own->depth);
    }
    if (!p->packed && rows < e->rows) {
        e->pack_a(g, p->a, i, rows, own->k, own->depth, own->strips);
        return e->packed(g, own->strips, own->depth);
    }
    if (p->packed) strip = e->packed(g, p->packed + (i - p->from) * p->how.k * e->element, p->how.k);
    strip.data = (const uint8_t *)strip.data + own->k * strip.step * e->element;
    return strip;
}

/* Lists a share of the rows of a transposed A that the part packs next; k is relative to the part's current k. bf16 is prefetched while it
 * is packed. */
static prefetch pack_prefetch(const product *p, int64_t i, int64_t k, int64_t depth, int64_t share, int64_t shares, const room *own)
{
    const rp_gemm *g = p->g;
    int64_t element = rp_dtype_bytes(g->ab), rows = p->how.e->rows, strip = (i - own->row) / rows % STRIPS_A_PACK;
    int64_t next = i + (STRIPS_A_PACK - strip) * rows, count = gemm_least(STRIPS_A_PACK * rows, own->end - next);

    if (count <= 0 || !g->transpose_a || g->ab == RP_BF16) return (prefetch){ .n = 0 };
    share += strip * shares;
    shares *= STRIPS_A_PACK;
    int64_t from = depth * share / shares;
    return prefetch_of((const uint8_t *)p->a + ((own->k + k + from) * g->m + next) * element, g->m * element, count * element,
                       depth * (share + 1) / shares - from);
}

/* Lists a share of the next strip's data for this depth block; i is its row. k is relative to the part's current k. */
static prefetch strip_prefetch(const product *p, int64_t i, int64_t k, int64_t depth, int64_t share, int64_t shares, const room *own)
{
    const gemm_engine *e = p->how.e;

    if (p->how.packs_own) return pack_prefetch(p, i - e->rows, k, depth, share, shares, own);
    if (i + e->rows > own->end) return (prefetch){ .n = 0 };
    gemm_strip next     = strip_at(p, i, own);
    const uint8_t *data = (const uint8_t *)next.data + k * next.step * e->element;
    int64_t runs = next.step > 1 ? depth : e->rows, apart = (next.step > 1 ? next.step : next.row) * e->element;
    int64_t bytes = (next.step > 1 ? e->rows : depth) * e->element, from = runs * share / shares;
    return prefetch_of(data + from * apart, apart, bytes, runs * (share + 1) / shares - from);
}

/* Lists the tile of C to the right of this one. */
static prefetch c_prefetch(const product *p, const place *at, int64_t columns)
{
    int64_t element = rp_dtype_bytes(p->g->c), row = p->g->n * element;

    if (columns <= 0) return (prefetch){ .n = 0 };
    return prefetch_of((const uint8_t *)p->c + (at->i * p->g->n + at->j + p->how.e->columns) * element, row, columns * element, at->rows);
}

/* Multiplies a strip by the panels of depth block d. */
static void one_strip(const product *p, int64_t i, int64_t d, gemm_strip a, const uint8_t *panels, const room *own, float *sums)
{
    const gemm_engine *e = p->how.e;
    int64_t from = d * p->how.depth, k = from - own->k, depth = gemm_least(p->how.depth, p->how.k - from);
    int64_t panel = depth * e->columns * e->element;
    bool last     = d + 1 == p->how.n_depth;

    a.data = (const uint8_t *)a.data + k * a.step * e->element;
    for (int64_t j = own->from; j < own->to; j += e->columns, sums += e->rows * e->columns, panels += panel) {
        place at = { i, j, gemm_least(e->rows, p->to - i), gemm_least(e->columns, own->to - j) };
        prefetch lists[N_PREFETCH] = { strip_prefetch(p, i + e->rows, k, gemm_least(depth, p->g->k - from), (j - own->from) / e->columns,
                                       ceiling(own->to - own->from, e->columns), own),
                           { .n = 0 } };
        if (last || p->g->c == RP_F32) lists[PREFETCH_C] = c_prefetch(p, &at, gemm_least(e->columns, own->to - j - e->columns));
        if (p->g->c == RP_F32) {
            tile_in_c(p, &at, depth, a, panels, d > 0 || p->g->adds, last, (float *)(void *)own->tile, lists);
            continue;
        }
        float *sum = p->how.sums_bytes ? sums : (float *)(void *)own->tile;
        e->multiply(depth, a, panels, sum, e->columns, d > 0, lists);
        if (last) put_tile(p, &at, sum);
    }
}

/* Packs the panels of at_once depth blocks from d on, then multiplies every strip of the part by them. */
static void some_depth(const product *p, int64_t d, room *own)
{
    const cut *how       = &p->how;
    const gemm_engine *e = how->e;
    int64_t end = gemm_least(d + how->at_once, how->n_depth), block = how->depth * how->block_columns * e->element;

    own->k     = d * how->depth;
    own->depth = gemm_least(end * how->depth, how->k) - own->k;
    for (int64_t b = d; b < end; b++)
        e->pack_b(p->g, p->b, own->from, own->to - own->from, b * how->depth, gemm_least(how->depth, how->k - b * how->depth),
                  own->panels + (b - d) * block);
    for (int64_t i = own->row; i < own->end; i += e->rows) {
        gemm_strip a = strip_at(p, i, own);
        float *sums  = (float *)(void *)own->sums + (how->at_once < how->n_depth ? (i - own->row) * how->block_columns : 0);
        for (int64_t b = d; b < end; b++) one_strip(p, i, b, a, own->panels + (b - d) * block, own, sums);
    }
}

static void one_part(void *arg, int64_t part, int thread)
{
    const product *p = arg;
    const cut *how   = &p->how;
    uint8_t *base    = p->threads + thread * how->thread_bytes;
    room own         = { .panels = base, .sums = base + how->panels_bytes };

    own.tile   = own.sums + how->sums_bytes;
    own.strips = own.tile + how->tile_bytes;
    own.row    = p->from + part % p->n_rows * how->block_rows;
    own.end    = gemm_least(own.row + how->block_rows, p->to);
    own.from   = rp__part_from(p->g->n, how->e->columns, how->n_columns, part / p->n_rows);
    own.to     = rp__part_from(p->g->n, how->e->columns, how->n_columns, part / p->n_rows + 1);
    how->e->begin();
    for (int64_t d = 0; d < how->n_depth; d += how->at_once) some_depth(p, d, &own);
    how->e->end();
}

/* ---- the whole product ---- */

static void pack_strips(void *arg, int64_t part, int thread)
{
    const product *p     = arg;
    const gemm_engine *e = p->how.e;
    int64_t from = rp__part_from(p->to - p->from, e->rows, p->n_packs, part), to = rp__part_from(p->to - p->from, e->rows, p->n_packs, part + 1);

    (void)thread;
    e->pack_a(p->g, p->a, p->from + from, to - from, 0, p->how.k, p->packed + from * p->how.k * e->element);
}

int64_t RP_AT_LEVEL(gemm_blocks_scratch)(const rp_gemm *g)
{
    cut c;

    cut_up(g, &c);
    return c.packed_bytes + c.thread_bytes * g->on.threads;
}

int64_t RP_AT_LEVEL(gemm_blocks_scratch_most)(const rp_gemm *g)
{
    const gemm_engine *e = RP_AT_LEVEL(gemm_engine_for)(g);
    int64_t tile         = rp__align_up(e->rows * e->columns * (int64_t)sizeof(float));
    int64_t strips       = rp__align_up(STRIPS_A_PACK * e->rows * padded_most(g->k, e) * e->element);
    int64_t thread       = rp__align_up(panels_most(g, e)) + rp__align_up(sums_most(g, e)) + tile + strips;

    return rp__align_up(packed_most(g, e)) + thread * g->on.threads;
}

void RP_AT_LEVEL(gemm_blocks)(const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch)
{
    product p = { .g = g, .a = a, .b = b, .c = c, .bias = bias };

    cut_up(g, &p.how);
    if (p.how.packed_bytes) p.packed = scratch;
    p.threads = (uint8_t *)scratch + p.how.packed_bytes;
    for (p.from = 0; p.from < g->m; p.from = p.to) {
        p.to     = gemm_least(p.from + p.how.stretch, g->m);
        p.n_rows = ceiling(p.to - p.from, p.how.block_rows);
        p.n_packs = ceiling(p.to - p.from, 4 * STRIPS_A_PACK * p.how.e->rows);
        if (p.packed) rp__team_run(g->on.threads, p.n_packs, pack_strips, &p);
        rp__team_run(g->on.threads, p.n_rows * p.how.n_columns, one_part, &p);
    }
}

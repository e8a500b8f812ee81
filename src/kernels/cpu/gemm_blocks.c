/* kernels/cpu/gemm_blocks.c -- products cut into parts for the team.
 *
 *                 n ->   part 0 | part 1 | part 2 …        A part is a block of C: its thread packs the block's panels of B into its own
 *            +---+ +-----------+--------+--------+         scratch, depth block by depth block, and takes the strips of A past them. So B
 *     m  A   | s | |           |        |        |         is packed once and stays in the thread's second cache, a strip in its first.
 *     |      | t | |           |        |        |
 *     v      | r | |           |        |        |         A is read where it lies. Where it cannot be (its rows run along m, another
 *            | i | |           |        |        |         dtype, an odd depth), stretches of its rows are packed first, by the team,
 *            | p | |           |        |        |         and all parts read them.
 *            +---+ +-----------+--------+--------+
 *
 *   scratch   [ A of a stretch, packed ] [ of each thread:  B panels | sums of the block, where C cannot hold them | a tile | a strip ]
 *
 * Sums live in C itself when it is fp32, else in the thread's sums until the last depth block. An element of C is the sum over depth
 * blocks of one chain each, whatever part it lies in: its bits depend on k, `adds` and the level alone, not on m, n or the threads.
 */
#include "kernels/cpu/gemm_engine.h"
#include "kernels/cpu/pack.h"

#include "base/team.h"

enum {
    PANELS_BYTES  = 512 << 10,      /* of B in a thread's scratch: a quarter of a second cache of 2 MiB */
    SUMS_BYTES    = 1280 << 10,     /* of C that depth blocks come back to */
    STRETCH_BYTES = 8 << 20,        /* of A packed at a time */
    PARTS_A_THREAD = 2,             /* so that a thread that loses its core is helped, */
    SHARED_BYTES  = 4 << 20,        /* unless A, which every part reads, is larger than this */
    STRIPS_A_PACK = 8,              /* packed together, so that memory is read in long runs */
};

typedef struct {
    const gemm_engine *e;
    int64_t depth, n_depth;             /* of a block, padded; how many */
    int64_t stretch;                    /* rows of A at a time: all of them where nothing is packed */
    int64_t block_rows, n_rows;         /* of a part, and parts along m of a whole stretch */
    int64_t n_columns, block_columns;   /* parts along n, and the widest */
    int64_t packed_bytes, panels_bytes, sums_bytes, tile_bytes, strip_bytes, thread_bytes;
} cut;

static int64_t ceiling(int64_t n, int64_t d) { return (n + d - 1) / d; }

/* Columns: as many as their panels' room allows, in parts that share the panels evenly over the threads. */
static void cut_columns(const rp_gemm *g, cut *c)
{
    int64_t panels = ceiling(g->n, c->e->columns), room = PANELS_BYTES / (c->depth * c->e->columns * c->e->element);

    bool shares  = g->m * g->k * c->e->element <= SHARED_BYTES && panels >= 4 * PARTS_A_THREAD * g->threads;
    int64_t most = ceiling(panels, room > 0 ? room : 1), least = (shares ? PARTS_A_THREAD : 1) * g->threads;

    c->n_columns     = gemm_least(panels, gemm_up(most > least ? most : least, g->threads));
    c->block_columns = ceiling(panels, c->n_columns) * c->e->columns;
}

/* Rows: all of the stretch, but no more than depth blocks can come back to in cache, and enough parts for the team. */
static void cut_rows(const rp_gemm *g, cut *c)
{
    int64_t strips = ceiling(c->stretch, c->e->rows), parts = 1;

    if (c->n_depth > 1) parts = ceiling(c->stretch * c->block_columns * (int64_t)sizeof(float), SUMS_BYTES);
    if (c->n_columns * parts < g->threads) parts = ceiling(g->threads, c->n_columns);
    c->n_rows     = gemm_least(strips, parts);
    c->block_rows = ceiling(strips, c->n_rows) * c->e->rows;
    c->n_rows     = ceiling(c->stretch, c->block_rows);
}

static void cut_up(const rp_gemm *g, cut *c)
{
    const gemm_engine *e = RP_AT_LEVEL(gemm_engine_for)(g);
    int64_t padded       = gemm_up(g->k, e->step), rows = g->m > 0 ? g->m : 1;

    *c         = (cut){ .e = e };
    c->n_depth = padded ? ceiling(padded, e->depth) : 1;
    c->depth   = gemm_up(ceiling(padded, c->n_depth), e->step);
    if (c->depth == 0) c->depth = e->step;
    c->n_depth = padded ? ceiling(padded, c->depth) : 1;
    c->stretch = rows;
    if (!e->reads_a(g)) {
        int64_t strip   = e->rows * padded * e->element;
        c->stretch      = gemm_least(gemm_up(rows, e->rows), gemm_up(ceiling(STRETCH_BYTES, strip ? strip : 1), 8) * e->rows);
        c->packed_bytes = rp__align_up(ceiling(c->stretch, e->rows) * strip);
    }
    cut_columns(g, c);
    cut_rows(g, c);
    c->panels_bytes = rp__align_up(c->depth * c->block_columns * e->element);
    c->sums_bytes   = g->c != RP_F32 && c->n_depth > 1 ? rp__align_up(c->block_rows * c->block_columns * (int64_t)sizeof(float)) : 0;
    c->tile_bytes   = rp__align_up(e->rows * e->columns * (int64_t)sizeof(float));
    c->strip_bytes  = rp__align_up(e->rows * padded * e->element);
    c->thread_bytes = c->panels_bytes + c->sums_bytes + c->tile_bytes + c->strip_bytes;
}

/* ---- one tile ---- */

typedef struct {
    const rp_gemm *g;
    cut how;
    const void *a, *b, *bias;
    void *c;
    uint8_t *packed, *threads;
    int64_t from, to, n_rows, n_packs;      /* of the stretch: its rows, parts along them, parts of packing them */
} product;

typedef struct { uint8_t *panels, *sums, *tile, *strip; } room;

typedef struct { int64_t i, j, rows, columns; } place;      /* of a tile in C */

static bool is_whole(const product *p, const place *at) { return at->rows == p->how.e->rows && at->columns == p->how.e->columns; }

static void add_bias(const product *p, const place *at, float *sum, int64_t sum_row)
{
    for (int64_t r = 0; r < at->rows; r++)
        for (int64_t j = 0; j < at->columns; j++) sum[r * sum_row + j] += load_one(p->g->ab, p->bias, at->j + j);
}

static void copy_tile(const place *at, const float *from, int64_t from_row, float *to, int64_t to_row)
{
    for (int64_t r = 0; r < at->rows; r++) memcpy(to + r * to_row, from + r * from_row, (size_t)at->columns * sizeof *to);
}

/* Sums live in C; where a tile is not whole it goes through the thread's. */
static void tile_in_c(const product *p, const place *at, int64_t depth, gemm_strip a, const void *b, bool adds, bool last, float *tile)
{
    const gemm_engine *e = p->how.e;
    int64_t n            = p->g->n;
    float *c             = (float *)p->c + at->i * n + at->j;

    if (is_whole(p, at)) e->multiply(depth, a, b, c, n, adds);
    else {
        memset(tile, 0, (size_t)p->how.tile_bytes);
        if (adds) copy_tile(at, c, n, tile, e->columns);
        e->multiply(depth, a, b, tile, e->columns, adds);
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

static gemm_strip strip_at(const product *p, int64_t i, const room *own)
{
    const rp_gemm *g     = p->g;
    const gemm_engine *e = p->how.e;
    int64_t rows = gemm_least(e->rows, p->to - i), element = e->element;

    if (p->packed) return e->packed(g, p->packed + (i - p->from) * gemm_up(g->k, e->step) * element);
    if (rows == e->rows) return (gemm_strip){ (const uint8_t *)p->a + i * g->k * element, g->k, 1 };
    e->pack_a(g, p->a, i, rows, own->strip);
    return e->packed(g, own->strip);
}

/* A share of the next strip's rows comes to the second cache while this one is multiplied. */
static void fetch_rows(const product *p, int64_t i, int64_t k, int64_t depth, int64_t share, int64_t shares)
{
    int64_t rows = gemm_least(p->how.e->rows, p->to - i), row = p->g->k * p->how.e->element;

    if (p->packed || rows <= 0) return;
    for (int64_t r = rows * share / shares; r < rows * (share + 1) / shares; r++) {
        const char *line = (const char *)p->a + (i + r) * row + k * p->how.e->element;
        for (int64_t at = 0; at < depth * p->how.e->element; at += 64) __builtin_prefetch(line + at, 0, 2);
    }
}

/* And the tile of C right of this one to the first. */
static void fetch_c(const product *p, const place *at, int64_t columns)
{
    const float *c = (const float *)p->c + at->i * p->g->n + at->j + p->how.e->columns;

    for (int64_t r = 0; r < at->rows && columns > 0; r++, c += p->g->n) {
        __builtin_prefetch(c, 1);
        __builtin_prefetch(c + columns - 1, 1);
    }
}

static void one_strip(const product *p, int64_t i, int64_t from, int64_t to, int64_t d, const room *own, float *sums)
{
    const gemm_engine *e = p->how.e;
    int64_t k = d * p->how.depth, depth = gemm_least(p->how.depth, gemm_up(p->g->k, e->step) - k);
    gemm_strip a = strip_at(p, i, own);
    bool last    = d + 1 == p->how.n_depth;

    a.data = (const uint8_t *)a.data + k * a.step * e->element;
    for (int64_t j = from; j < to; j += e->columns, sums += e->rows * e->columns) {
        const uint8_t *b = own->panels + (j - from) * depth * e->element;
        place at         = { i, j, gemm_least(e->rows, p->to - i), gemm_least(e->columns, to - j) };
        fetch_rows(p, i + e->rows, k, gemm_least(depth, p->g->k - k), (j - from) / e->columns, ceiling(to - from, e->columns));
        if (p->g->c == RP_F32) {
            fetch_c(p, &at, gemm_least(e->columns, to - j - e->columns));
            tile_in_c(p, &at, depth, a, b, d > 0 || p->g->adds, last, (float *)(void *)own->tile);
            continue;
        }
        float *sum = p->how.sums_bytes ? sums : (float *)(void *)own->tile;
        e->multiply(depth, a, b, sum, e->columns, d > 0);
        if (last) put_tile(p, &at, sum);
    }
}

static void one_part(void *arg, int64_t part, int thread)
{
    const product *p     = arg;
    const cut *how       = &p->how;
    const gemm_engine *e = how->e;
    uint8_t *base        = p->threads + thread * how->thread_bytes;
    room own = { base, base + how->panels_bytes, base + how->panels_bytes + how->sums_bytes, base + how->thread_bytes - how->strip_bytes };
    int64_t row  = p->from + part % p->n_rows * how->block_rows, end = gemm_least(row + how->block_rows, p->to);
    int64_t from = rp__part_from(p->g->n, e->columns, how->n_columns, part / p->n_rows);
    int64_t to   = rp__part_from(p->g->n, e->columns, how->n_columns, part / p->n_rows + 1);

    e->begin();
    for (int64_t d = 0; d < how->n_depth; d++) {
        int64_t k = d * how->depth;
        e->pack_b(p->g, p->b, from, to - from, k, gemm_least(how->depth, gemm_up(p->g->k, e->step) - k), own.panels);
        for (int64_t i = row; i < end; i += e->rows)
            one_strip(p, i, from, to, d, &own, (float *)(void *)own.sums + (i - row) * how->block_columns);
    }
    e->end();
}

/* ---- all of it ---- */

static void pack_strips(void *arg, int64_t part, int thread)
{
    const product *p     = arg;
    const gemm_engine *e = p->how.e;
    int64_t from = rp__part_from(p->to - p->from, e->rows, p->n_packs, part), to = rp__part_from(p->to - p->from, e->rows, p->n_packs, part + 1);

    (void)thread;
    e->pack_a(p->g, p->a, p->from + from, to - from, p->packed + from * gemm_up(p->g->k, e->step) * e->element);
}

int64_t RP_AT_LEVEL(gemm_blocks_scratch)(const rp_gemm *g)
{
    cut c;

    cut_up(g, &c);
    return c.packed_bytes + c.thread_bytes * g->threads;
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
        p.n_packs = ceiling(p.to - p.from, STRIPS_A_PACK * p.how.e->rows);
        if (p.packed) rp__team_run(g->threads, p.n_packs, pack_strips, &p);
        rp__team_run(g->threads, p.n_rows * p.how.n_columns, one_part, &p);
    }
}

/* Claims about ops that ranks make together. Run alone they are those of one rank; CMake runs them as jobs of 2, 3, 4 and 6 ranks of each MPI:
 * from 5 ranks on the blocks of a head are split. */
/* ctest: slow-emulated emu ranks=2,3,4,6 */
#include "rp_test.h"

#include "ops/prefetch.h"
#include "ops/reduce_async.h"
#include "shard/ranks.h"
#include "quant_test.h"

#include "ranks_test.h"      /* last: its names are short */

static int setup(void **state)
{
    ranks_setup(state);
    assert_ok(ctx, rp__ranks_join(ctx, world, 1));
    return 0;
}

static int teardown(void **state)
{
    rp__ranks_leave(ctx);
    return ranks_teardown(state);
}

/* ---- tensors that every rank can draw ---- */

static rp_tensor *make(const rp_meta *m)
{
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, m, RP_MEM_TEMP, &t));
    return t;
}

/* Element e of what rank `who` has under this number: a sixteenth from -2 to 2, exact in bf16, and so are sums of some of them. */
static double value(int number, int who, int64_t e)
{
    uint64_t x = ((uint64_t)number * 131 + (uint64_t)who) * 0x9E3779B97F4A7C15u + (uint64_t)e * 0xD1B54A32D192ED03u;

    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return (double)((int64_t)(x >> 40) % 33 - 16) / 8;
}

/* Element e is number first + e of a whole; from `count` on they are 0. */
static void draw_part(rp_tensor *t, int number, int who, int64_t first, int64_t count)
{
    int64_t n = rp_meta_elems(&t->m);
    double *v = malloc((size_t)(n + 1) * sizeof *v);

    for (int64_t e = 0; e < n; e++) v[e] = e < count ? value(number, who, first + e) : 0;
    assert_ok(ctx, rp_tensor_write(t, v, n));
    free(v);
}

static void draw(rp_tensor *t, int number, int who) { draw_part(t, number, who, 0, rp_meta_elems(&t->m)); }

static void assert_part(const rp_tensor *t, int64_t first, int64_t count, double (*expected)(int number, int64_t e), int number)
{
    int64_t n   = rp_meta_elems(&t->m);
    double *got = malloc((size_t)(n + 1) * sizeof *got);

    assert_ok(ctx, rp_tensor_read(t, got, n));
    for (int64_t e = 0; e < n; e++) {
        double wanted = e < count ? expected(number, first + e) : 0;
        if (got[e] != wanted) fail_msg("rank %d of %d: element %lld of %lld is %g, not %g", rank, ranks, (long long)(first + e), (long long)n, got[e], wanted);
    }
    free(got);
}

static double of_first(int number, int64_t e) { return value(number, 0, e); }

static void assert_whole(const rp_tensor *t, int number) { assert_part(t, 0, rp_meta_elems(&t->m), of_first, number); }

/* This rank's slice of a whole that all draw. */
static rp_tensor *draw_slice(rp_dtype dtype, int64_t n, int number)
{
    rp_slice here = rp__slice_of(n, rank, ranks);
    rp_meta m     = rp_meta_1d(dtype, here.room);
    rp_tensor *t  = make(&m);

    draw_part(t, number, 0, here.first, here.count);
    return t;
}

static void assert_slice(const rp_tensor *slice, int64_t n, double (*expected)(int number, int64_t e))
{
    rp_slice here = rp__slice_of(n, rank, ranks);

    assert_int_equal(rp_meta_elems(&slice->m), here.room);
    assert_part(slice, here.first, here.count, expected, 2);
}

/* ---- one call ---- */

typedef struct { rp_op_meta m; rp_tensor *out, *slot[RP_MAX_SLOT]; } call;

static void forward(const rp_op *op, const void *attr, rp_tensor *const *in, int n_in, call *c)
{
    bool wants[RP_MAX_IN] = { false };

    *c = (call){ 0 };
    for (int i = 0; i < n_in && i < 2; i++) wants[i] = rp_meta_is_float(&in[i]->m);
    assert_ok(ctx, rp__op_prepare(ctx, op, attr, in, n_in, true, wants, &c->m));
    assert_ok(ctx, rp__op_forward(&c->m, (rp_op_stream){ 0 }, false, in, &c->out, c->slot));
}

static void end(call *c)
{
    rp_tensor_unref(c->out);
    for (int i = 0; i < RP_MAX_SLOT; i++) rp_tensor_unref(c->slot[i]);
}

static const int64_t sizes[] = { 1, 15, 16, 17, 1000, 70001 };

static rp_attr_whole flat(int64_t n) { return (rp_attr_whole){ .ndim = 1, .dim = { n } }; }

static void check_gather(rp_dtype dtype, int64_t n)
{
    rp_attr_whole whole = flat(n);
    rp_tensor *slice    = draw_slice(dtype, n, 1);
    call c;

    forward(&rp_op_all_gather, &whole, &slice, 1, &c);
    assert_int_equal(rp_meta_elems(&c.out->m), n);
    assert_whole(c.out, 1);
    end(&c);
    rp_tensor_unref(slice);
}

static void every_rank_gathers_the_whole(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(sizes); i++)
        for (int d = 0; d < 3; d++) check_gather((rp_dtype[]){ RP_F32, RP_BF16, RP_F64 }[d], sizes[i]);
}

static double sum_of_ranks(int number, int64_t e)
{
    double sum = 0;

    for (int r = 0; r < ranks; r++) sum += value(number, r, e);
    return sum;
}

static double twice_the_sum(int number, int64_t e) { return 2 * sum_of_ranks(number, e); }

/* Added to and assigned; more than one piece of a slice where n is large. */
static void check_gradient(rp_dtype dtype, rp_dtype grad_dtype, int64_t n)
{
    rp_attr_whole whole = flat(n);
    rp_tensor *slice    = draw_slice(dtype, n, 1), *sum;
    rp_meta m           = rp_meta_1d(grad_dtype, slice->m.dim[0]);
    call c;

    forward(&rp_op_all_gather, &whole, &slice, 1, &c);
    rp_meta dy_meta = rp_meta_1d(grad_dtype, n);
    rp_tensor *dy   = make(&dy_meta);
    sum             = make(&m);
    draw(dy, 2, rank);
    rp_op_call back = { .meta = &c.m, .grad_out = { dy }, .grad_in = { sum } };
    assert_ok(ctx, rp__op_backward(&back));
    assert_ok(ctx, rp__reduce_async_settle(ctx, sum));
    assert_slice(sum, n, sum_of_ranks);
    assert_ok(ctx, rp__op_backward(&back));
    back.grad_adds[0] = true;
    assert_ok(ctx, rp__op_backward(&back));
    assert_ok(ctx, rp__reduce_async_settle(ctx, NULL));
    assert_slice(sum, n, twice_the_sum);
    end(&c);
    rp_tensor_unref(dy);
    rp_tensor_unref(sum);
    rp_tensor_unref(slice);
}

static void the_gradient_of_a_slice_is_the_sum_over_ranks(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(sizes); i++) {
        check_gradient(RP_F32, RP_F32, sizes[i]);
        check_gradient(RP_BF16, RP_BF16, sizes[i]);
        check_gradient(RP_BF16, RP_F32, sizes[i]);
        check_gradient(RP_F64, RP_F64, sizes[i]);
    }
    check_gradient(RP_BF16, RP_BF16, 1200007);
}

/* What was left to come is there when it is asked for: the same sums, one after the other where they share a slice. */
static void sums_that_are_left_to_come_are_the_same(void **state)
{
    (void)state;
    for (int64_t bytes = 64; bytes <= 1 << 23; bytes *= 32) {
        assert_ok(ctx, rp__reduce_async_open(ctx, bytes));
        the_gradient_of_a_slice_is_the_sum_over_ranks(state);
        rp__reduce_async_close(ctx);
    }
}

/* Two pieces of each slice's sum go between more than two groups. */
static void check_copies(rp_dtype dtype, int copies, int64_t n)
{
    int together    = ranks / copies;
    rp_slice here   = rp__slice_of(n, rank % together, together);
    rp_meta m       = rp_meta_1d(dtype, here.room), whole_meta = rp_meta_1d(dtype, n);
    rp_tensor *part = make(&m), *sum = make(&m), *dy = make(&whole_meta);
    rp_attr_whole whole = flat(n);
    call c;

    draw(part, 1, 0);
    draw(dy, 2, rank);
    forward(&rp_op_all_gather, &whole, &part, 1, &c);
    assert_ok(ctx, rp__op_backward(&(rp_op_call){ .meta = &c.m, .grad_out = { dy }, .grad_in = { sum } }));
    assert_ok(ctx, rp__reduce_async_settle(ctx, NULL));
    assert_part(sum, here.first, here.count, sum_of_ranks, 2);
    end(&c);
    rp_tensor_unref(part);
    rp_tensor_unref(sum);
    rp_tensor_unref(dy);
}

static void groups_that_hold_copies_sum_over_all_of_them(void **state)
{
    (void)state;
    for (int copies = 2; copies <= ranks; copies++) {
        if (ranks % copies) continue;
        rp__ranks_leave(ctx);
        assert_ok(ctx, rp__ranks_join(ctx, world, copies));
        check_copies(RP_BF16, copies, 33);
        check_copies(RP_F32, copies, 900007);
        assert_ok(ctx, rp__reduce_async_open(ctx, 1 << 24));
        check_copies(RP_F32, copies, 900007);
        rp__reduce_async_close(ctx);
    }
    rp__ranks_leave(ctx);
    assert_ok(ctx, rp__ranks_join(ctx, world, 1));
}

static void a_sum_that_is_scattered_has_the_gathered_gradient(void **state)
{
    rp_meta m    = rp_meta_2d(RP_F32, 29, 37);
    rp_tensor *x = make(&m), *dx = make(&m), *dy = draw_slice(RP_F32, 29 * 37, 3);
    call c;

    (void)state;
    draw(x, 2, rank);
    forward(&rp_op_reduce_scatter, NULL, &x, 1, &c);
    assert_slice(c.out, 29 * 37, sum_of_ranks);
    assert_ok(ctx, rp__op_backward(&(rp_op_call){ .meta = &c.m, .grad_out = { dy }, .grad_in = { dx } }));
    assert_whole(dx, 3);
    end(&c);
    rp_tensor_unref(x);
    rp_tensor_unref(dx);
    rp_tensor_unref(dy);
}

/* ---- quantised wholes, whose slices are bytes ---- */

/* The same on every rank. */
static rp_tensor *quantised(const rp_meta *whole, unsigned seed) { return quant_tensor(ctx, whole, seed); }

static rp_tensor *bytes_of_slice(const rp_tensor *whole)
{
    rp_slice here = rp__slice_of(rp__sliced_elems(&whole->m), rank, ranks);
    rp_meta m     = rp_meta_1d(RP_U8, here.room);
    rp_tensor *t  = make(&m);
    rp_host h;

    assert_ok(ctx, rp__tensor_host_all(t, RP_HOST_WRITE, &h));
    memset(h.data, 0, (size_t)here.room);
    memcpy(h.data, test_bytes(whole) + here.first, (size_t)here.count);
    rp__tensor_host_end(&h);
    return t;
}

static rp_attr_whole whole_attr(const rp_meta *m)
{
    rp_attr_whole whole = { .ndim = m->ndim, .dtype = (int)m->dtype };

    memcpy(whole.dim, m->dim, sizeof whole.dim);
    return whole;
}

static void assert_same_bits(const rp_tensor *a, const rp_tensor *b)
{
    assert_true(rp_meta_same(&a->m, &b->m));
    assert_memory_equal(test_bytes(a), test_bytes(b), (size_t)rp_meta_bytes(&a->m));
}

static void check_quantised(const rp_meta *m)
{
    rp_tensor *whole = quantised(m, 9), *slice = bytes_of_slice(whole);
    rp_attr_whole how = whole_attr(m);
    call c;

    forward(&rp_op_all_gather, &how, &slice, 1, &c);
    assert_same_bits(c.out, whole);
    assert_int_equal(c.m.scratch_backward_bytes, 0);
    end(&c);
    rp_tensor_unref(slice);
    rp_tensor_unref(whole);
}

/* From one block to some groups of NF4, and experts. */
static void every_rank_gathers_the_bytes_of_a_quantised_whole(void **state)
{
    (void)state;
    for (rp_dtype t = RP_Q4_0; t < RP_DTYPES; t++) {
        check_quantised(&(rp_meta){ t, 1, { 256 } });
        check_quantised(&(rp_meta){ t, 2, { 33, 256 } });
        check_quantised(&(rp_meta){ t, 3, { 3, 70, 512 } });
    }
}

static void what_is_no_slice_of_a_quantised_whole_is_refused(void **state)
{
    static const struct { rp_attr_whole whole; const char *says; } refused[] = {
        { { 2, { 33, 256 }, RP_F32 }, "all_gather: x is bytes of fp32, expected those of a quantised tensor without a gradient" },
        { { 2, { 32, 264 }, RP_Q4_0 }, "rows of q4_0 [32, 264] are not whole blocks of 32 elements" },
        { { 2, { 33, 512 }, RP_Q4_0 }, "all_gather: x is uint8 [" },
    };
    rp_tensor *whole = quantised(&(rp_meta){ RP_Q4_0, 2, { 33, 256 } }, 9), *slice = bytes_of_slice(whole);
    const bool wants[RP_MAX_IN] = { true };
    rp_attr_whole how = whole_attr(&whole->m);
    rp_op_meta m;

    (void)state;
    for (int i = 0; i < RP_COUNT(refused); i++) {
        assert_true(rp__op_prepare(ctx, &rp_op_all_gather, &refused[i].whole, &slice, 1, true, NULL, &m) != RP_OK);
        if (!strstr(rp_error(ctx), refused[i].says)) fail_msg("%s", rp_error(ctx));
    }
    assert_int_equal(rp__op_prepare(ctx, &rp_op_all_gather, &how, &slice, 1, true, wants, &m), RP_ERR_DTYPE);
    rp_tensor_unref(slice);
    rp_tensor_unref(whole);
}

/* ---- the head ---- */

enum { ROWS = 24, WIDTH = 40, CLASSES = 333, WIDE = 256 };

typedef struct { rp_tensor *loss, *dx, *dw; } head;

static rp_tensor *labels_of(void)
{
    rp_meta m    = rp_meta_1d(RP_I32, ROWS);
    rp_tensor *t = make(&m);
    int32_t label[ROWS];

    for (int i = 0; i < ROWS; i++) label[i] = i % 7 ? (i * 53 + rank * 11) % CLASSES : -1;
    assert_ok(ctx, rp_tensor_write_i32(t, label, ROWS));
    return t;
}

/* dw: of a sliced head its slice, else the whole one's, which differs from rank to rank; NULL: w is `quantised`. */
static head run_head(rp_dtype dtype, rp_tensor *w, bool sliced, rp_dtype quantised)
{
    rp_attr_cross_entropy how = { 1.0f / ROWS, -1, 5, 0, sliced ? CLASSES : 0, 0.7, (int64_t)quantised };
    rp_meta xm = rp_meta_2d(dtype, ROWS, quantised ? WIDE : WIDTH), gm = rp_meta_1d(RP_F32, 1);
    rp_tensor *x = make(&xm), *labels = labels_of(), *g = make(&gm);
    head h = { .dx = make(&xm), .dw = quantised ? NULL : make(&w->m) };
    call c;

    draw(x, 5, rank);
    rp_elem_put(g, 0, 1);
    forward(&rp_op_linear_cross_entropy, &how, (rp_tensor *[]){ x, w, labels }, 3, &c);
    h.loss = rp_tensor_ref(c.out);
    assert_ok(ctx, rp__op_backward(&(rp_op_call){ .meta = &c.m, .in = { x, w, labels }, .out = { c.out }, .slot = { c.slot[0], c.slot[1] },
                                                  .grad_out = { g }, .grad_in = { h.dx, h.dw } }));
    end(&c);
    rp_tensor_unref(x);
    rp_tensor_unref(labels);
    rp_tensor_unref(g);
    return h;
}

static void drop_head(head *h)
{
    rp_tensor_unref(h->loss);
    rp_tensor_unref(h->dx);
    rp_tensor_unref(h->dw);
}

static void check_head(rp_dtype dtype)
{
    rp_attr_whole whole = { .ndim = 2, .dim = { CLASSES, WIDTH } };
    rp_tensor *slice    = draw_slice(dtype, CLASSES * WIDTH, 4), *sum = make(&slice->m);
    call c;

    forward(&rp_op_all_gather, &whole, &slice, 1, &c);
    head gathered = run_head(dtype, c.out, false, RP_F32), streamed = run_head(dtype, slice, true, RP_F32);
    assert_ok(ctx, rp__op_backward(&(rp_op_call){ .meta = &c.m, .grad_out = { gathered.dw }, .grad_in = { sum } }));
    assert_same_bits(gathered.loss, streamed.loss);
    assert_same_bits(gathered.dx, streamed.dx);
    assert_same_bits(sum, streamed.dw);
    drop_head(&gathered);
    drop_head(&streamed);
    end(&c);
    rp_tensor_unref(sum);
    rp_tensor_unref(slice);
}

static void a_head_that_comes_in_blocks_has_the_bits_of_a_gathered_one(void **state)
{
    (void)state;
    check_head(RP_F32);
    check_head(RP_BF16);
}

/* Blocks of classes begin and end within slices, and within groups of NF4. */
static void a_quantised_head_that_comes_in_blocks_has_the_bits_of_a_whole_one(void **state)
{
    (void)state;
    for (int t = RP_Q4_0; t < RP_DTYPES; t += test_few_or(4, 1)) {
        rp_tensor *whole = quantised(&(rp_meta){ (rp_dtype)t, 2, { CLASSES, WIDE } }, 4), *slice = bytes_of_slice(whole);
        for (int d = test_few_or(t / 4 % 2, 0); d < 2; d += test_few_or(2, 1)) {
            head gathered = run_head(d ? RP_BF16 : RP_F32, whole, false, (rp_dtype)t), streamed = run_head(d ? RP_BF16 : RP_F32, slice, true, (rp_dtype)t);
            assert_same_bits(gathered.loss, streamed.loss);
            assert_same_bits(gathered.dx, streamed.dx);
            drop_head(&gathered);
            drop_head(&streamed);
        }
        rp_tensor_unref(slice);
        rp_tensor_unref(whole);
    }
}

/* ---- asked for ahead ---- */

enum { WEIGHTS = 9 };
static const int64_t elems[WEIGHTS] = { 100, 3000, 17, 3000, 50000, 64, 1, 900, 2500 };

static void check_pass(rp_tensor *const *slice, const int *order, int n)
{
    assert_ok(ctx, rp__prefetch_pass(ctx));
    for (int i = 0; i < n; i++) {
        rp_attr_whole whole = flat(elems[order[i]]);
        call c;
        forward(&rp_op_all_gather, &whole, &slice[order[i]], 1, &c);
        assert_whole(c.out, 10 + order[i]);
        end(&c);
    }
}

/* ---- parts ---- */

/* Groups of two. False: they do not come out even, or are all there are. */
static bool in_pairs(void)
{
    if (ranks % 2 || ranks == 2) return false;
    assert_ok(ctx, rp__ranks_stay(ctx, 2));
    return true;
}

static void leave_pairs(void)
{
    rp__comm_close(rp__groups(ctx)->inner);
    rp__comm_close(rp__groups(ctx)->outer);
    rp__groups(ctx)->inner = rp__groups(ctx)->outer = NULL;
}

/* The weights of a unit: all parts, then all wholes; backward makes the wholes again. */
static void check_parts(rp_tensor *const *slice, int first, int n)
{
    call part[WEIGHTS];

    for (int i = first; i < first + n; i++) {
        rp_attr_whole whole = flat(elems[i]);
        forward(&rp_op_all_gather_far, &whole, &slice[i], 1, &part[i]);
        for (int64_t e = 0, room = slice[i]->m.dim[0]; e < 2 * room; e++) {
            int64_t at = (e / room * 2 + rank % 2) * room + e % room;
            assert_true(rp_elem_get(part[i].out, e) == (at < elems[i] ? value(10 + i, 0, at) : 0));
        }
    }
    for (int turn = 0; turn < 2; turn++)
        for (int i = first; i < first + n; i++) {
            rp_attr_whole whole = flat(elems[i]);
            call c;
            forward(&rp_op_all_gather, &whole, (rp_tensor *[]){ slice[i], part[i].out }, 2, &c);
            assert_whole(c.out, 10 + i);
            end(&c);
        }
    for (int i = first; i < first + n; i++) end(&part[i]);
}

/* Asked for ahead in room for nothing, for some and for all of them; what is not made yet is not sent. */
static void a_whole_is_made_of_parts_that_were_kept(void **state)
{
    rp_tensor *slice[WEIGHTS];

    (void)state;
    if (!in_pairs()) skip();
    for (int i = 0; i < WEIGHTS; i++) slice[i] = draw_slice(RP_F32, elems[i], 10 + i);
    for (int64_t bytes = 64; bytes <= 1 << 20; bytes *= 8) {
        assert_ok(ctx, rp__prefetch_open(ctx, bytes));
        for (int pass = 0; pass < 3; pass++) {
            assert_ok(ctx, rp__prefetch_pass(ctx));
            for (int unit = 0; unit < WEIGHTS; unit += 3) check_parts(slice, unit, 3);
        }
        rp__prefetch_close(ctx);
    }
    for (int i = 0; i < WEIGHTS; i++) rp_tensor_unref(slice[i]);
    leave_pairs();
}

/* The bytes of a quantised whole pass through a part, too. */
static void a_quantised_whole_is_made_of_parts(void **state)
{
    (void)state;
    if (!in_pairs()) skip();
    for (rp_dtype t = RP_Q4_0; t < RP_DTYPES; t++) {
        rp_tensor *whole = quantised(&(rp_meta){ t, 2, { 70, 256 } }, 9), *slice = bytes_of_slice(whole);
        rp_attr_whole how = whole_attr(&whole->m);
        call part, c;
        forward(&rp_op_all_gather_far, &how, &slice, 1, &part);
        forward(&rp_op_all_gather, &how, (rp_tensor *[]){ slice, part.out }, 2, &c);
        assert_same_bits(c.out, whole);
        end(&c);
        end(&part);
        rp_tensor_unref(slice);
        rp_tensor_unref(whole);
    }
    leave_pairs();
}

static double sum_of_far(int64_t e)
{
    int64_t room = rp__slice_of(70001, 0, ranks).room, in_part = e - rank * room + rank / 2 * room;
    double sum   = 0;

    for (int r = rank % 2; r < ranks; r += 2) sum += value(2, r, in_part);
    return sum;
}

static void the_gradient_of_a_part_is_the_sum_over_those_who_are_far(void **state)
{
    rp_attr_whole whole = flat(70001);
    call c;

    (void)state;
    if (!in_pairs()) skip();
    rp_tensor *slice = draw_slice(RP_F32, 70001, 1), *sum = make(&slice->m);
    forward(&rp_op_all_gather_far, &whole, &slice, 1, &c);
    rp_tensor *dy = make(&c.out->m);
    draw(dy, 2, rank);
    assert_ok(ctx, rp__op_backward(&(rp_op_call){ .meta = &c.m, .grad_out = { dy }, .grad_in = { sum } }));
    rp_slice here = rp__slice_of(70001, rank, ranks);
    for (int64_t e = 0; e < here.count; e++) assert_true(rp_elem_get(sum, e) == sum_of_far(here.first + e));
    end(&c);
    rp_tensor_unref(dy);
    rp_tensor_unref(sum);
    rp_tensor_unref(slice);
    leave_pairs();
}

/* Passes alike, shorter ones, others, and with a weight that never fits the buffer. */
static void what_is_asked_for_ahead_is_what_is_gathered(void **state)
{
    static const int usual[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 7, 6, 3, 1 }, other[] = { 3, 3, 8, 0, 4, 4, 1 };
    rp_tensor *slice[WEIGHTS];

    (void)state;
    for (int i = 0; i < WEIGHTS; i++) slice[i] = draw_slice(RP_F32, elems[i], 10 + i);
    for (int64_t bytes = 64; bytes <= 1 << 17; bytes *= 8) {
        assert_ok(ctx, rp__prefetch_open(ctx, bytes));
        for (int i = 0; i < 3; i++) check_pass(slice, usual, RP_COUNT(usual));
        check_pass(slice, usual, 4);
        check_pass(slice, usual, RP_COUNT(usual));
        for (int i = 0; i < 2; i++) check_pass(slice, other, RP_COUNT(other));
        check_pass(slice, usual, RP_COUNT(usual));
        check_pass(slice, usual, 1);
        rp__prefetch_close(ctx);           /* with some on their way */
    }
    for (int i = 0; i < WEIGHTS; i++) rp_tensor_unref(slice[i]);
}

/* What changes between passes is gathered as it is in the pass. */
static void nothing_is_gathered_before_its_pass(void **state)
{
    rp_tensor *slice[WEIGHTS] = { draw_slice(RP_F32, elems[0], 10) };

    (void)state;
    assert_ok(ctx, rp__prefetch_open(ctx, 1 << 12));
    for (int pass = 0; pass < 4; pass++) {
        rp_attr_whole whole = flat(elems[0]);
        call c;
        assert_ok(ctx, rp__prefetch_pass(ctx));
        forward(&rp_op_all_gather, &whole, &slice[0], 1, &c);
        for (int64_t e = 0; e < elems[0]; e++) assert_true(rp_elem_get(c.out, e) == value(10, 0, e) + pass);
        end(&c);
        for (int64_t e = 0; e < slice[0]->m.dim[0]; e++) rp_elem_put(slice[0], e, rp_elem_get(slice[0], e) + 1);
    }
    rp__prefetch_close(ctx);
    rp_tensor_unref(slice[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_gathers_the_whole),
        cmocka_unit_test(the_gradient_of_a_slice_is_the_sum_over_ranks),
        cmocka_unit_test(sums_that_are_left_to_come_are_the_same),
        cmocka_unit_test(groups_that_hold_copies_sum_over_all_of_them),
        cmocka_unit_test(a_sum_that_is_scattered_has_the_gathered_gradient),
        cmocka_unit_test(a_head_that_comes_in_blocks_has_the_bits_of_a_gathered_one),
        cmocka_unit_test(every_rank_gathers_the_bytes_of_a_quantised_whole),
        cmocka_unit_test(what_is_no_slice_of_a_quantised_whole_is_refused),
        cmocka_unit_test(a_quantised_head_that_comes_in_blocks_has_the_bits_of_a_whole_one),
        cmocka_unit_test(what_is_asked_for_ahead_is_what_is_gathered),
        cmocka_unit_test(nothing_is_gathered_before_its_pass),
        cmocka_unit_test(a_whole_is_made_of_parts_that_were_kept),
        cmocka_unit_test(a_quantised_whole_is_made_of_parts),
        cmocka_unit_test(the_gradient_of_a_part_is_the_sum_over_those_who_are_far),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

/* kernels/gpu/norm.c -- launches the kernels of norm.k. */
#include "kernels/gpu/host.h"

/* ---- forward ---- */

void rp__gpu_op_rmsnorm_forward(rp_dtype dtype, const void *x, const void *w, float plus, void *y, float *rstd, int64_t rows, int64_t n, float eps,
                                const rp_on *on)
{
    norm_args args = { .x = gpu_address(x), .w = gpu_address(w), .y = gpu_address(y), .rstd = gpu_address(rstd), .rows = rows, .n = n, .eps = eps,
                       .plus = plus, .dtype = (int)dtype, .packed = gpu_packed(n, x, w, y, NULL), .team = gpu_team(n) };

    gpu_line(on, &rp__gpu_rmsnorm_forward, gpu_row_blocks(rows, args.team), &args);
}

void rp__gpu_op_layernorm_forward(rp_dtype dtype, const void *x, const void *w, const void *b, void *y, float *mean, float *rstd, int64_t rows,
                                  int64_t n, float eps, const rp_on *on)
{
    norm_args args = { .x = gpu_address(x), .w = gpu_address(w), .b = gpu_address(b), .y = gpu_address(y), .mean = gpu_address(mean),
                       .rstd = gpu_address(rstd), .rows = rows, .n = n, .eps = eps, .dtype = (int)dtype, .packed = gpu_packed(n, x, w, b, y),
                       .team = gpu_team(n) };

    gpu_line(on, &rp__gpu_layernorm_forward, gpu_row_blocks(rows, args.team), &args);
}

/* ---- backward ---- */

/* Parts of the rows whose sums are added in order. */
static int parts_of(int64_t rows)
{
    int64_t parts = gpu_blocks(rows, 64);

    return (int)(parts < 1 ? 1 : parts < GPU_PARTS ? parts : GPU_PARTS);
}

static void add_parts(const rp_on *on, const float *from, int parts, int64_t n, void *to, rp_dtype dtype, bool adds)
{
    add_parts_args args = { gpu_address(from), gpu_address(to), n, parts, (int)dtype, adds, 0 };

    gpu_line(on, &rp__gpu_add_parts, gpu_blocks(n, 32), &args);
}

void rp__gpu_op_rmsnorm_backward_scratch(int64_t n, int64_t *bytes, const rp_on *on)
{
    (void)on;
    *bytes = GPU_PARTS * n * (int64_t)sizeof(float);
}

void rp__gpu_op_rmsnorm_backward(rp_dtype dtype, const void *x, const void *w, float plus, const float *rstd, const void *dy, void *dx, bool dx_adds,
                                 void *dw, rp_dtype dw_dtype, bool dw_adds, int64_t rows, int64_t n, void *scratch, const rp_on *on)
{
    int team = gpu_team(n), parts = parts_of(rows);
    norm_parts_args sums = { gpu_address(x), 0, gpu_address(rstd), gpu_address(dy), gpu_address(scratch), 0, rows, n, parts, (int)dtype,
                             gpu_packed(n, x, dy, NULL, NULL), 0 };
    norm_backward_args d = { .x = gpu_address(x), .w = gpu_address(w), .rstd = gpu_address(rstd), .dy = gpu_address(dy), .dx = gpu_address(dx),
                             .rows = rows, .n = n, .plus = plus, .dtype = (int)dtype, .dx_dtype = (int)dtype, .adds = dx_adds,
                             .packed = gpu_packed(n, x, w, dy, dx), .team = team };

    if (dw) rp__gpu_launch(on, &rp__gpu_norm_parts, gpu_blocks(n, 32 * PACK), parts, 1, &sums);
    if (dw) add_parts(on, scratch, parts, n, dw, dw_dtype, dw_adds);
    if (dx) gpu_line(on, &rp__gpu_rmsnorm_dx, gpu_row_blocks(rows, team), &d);
}

void rp__gpu_op_layernorm_backward_scratch(int64_t n, int64_t *bytes, const rp_on *on)
{
    (void)on;
    *bytes = 2 * GPU_PARTS * n * (int64_t)sizeof(float);
}

void rp__gpu_op_layernorm_backward(rp_dtype dtype, const void *x, const void *w, const float *mean, const float *rstd, const void *dy, void *dx,
                                   rp_dtype dx_dtype, bool dx_adds, void *dw, rp_dtype dw_dtype, bool dw_adds, void *db, rp_dtype db_dtype,
                                   bool db_adds, int64_t rows, int64_t n, void *scratch, const rp_on *on)
{
    int team = gpu_team(n), parts = parts_of(rows);
    float *of_w = scratch, *of_b = of_w + parts * n;
    norm_parts_args sums = { gpu_address(x), gpu_address(mean), gpu_address(rstd), gpu_address(dy), gpu_address(of_w), gpu_address(of_b), rows, n,
                             parts, (int)dtype, gpu_packed(n, x, dy, NULL, NULL), 0 };
    norm_backward_args d = { .x = gpu_address(x), .w = gpu_address(w), .mean = gpu_address(mean), .rstd = gpu_address(rstd),
                             .dy = gpu_address(dy), .dx = gpu_address(dx), .rows = rows, .n = n, .dtype = (int)dtype, .dx_dtype = (int)dx_dtype,
                             .adds = dx_adds, .packed = gpu_packed(n, x, w, dy, dx), .team = team };

    if (dw || db) rp__gpu_launch(on, &rp__gpu_norm_parts, gpu_blocks(n, 32 * PACK), parts, 1, &sums);
    if (dw) add_parts(on, of_w, parts, n, dw, dw_dtype, dw_adds);
    if (db) add_parts(on, of_b, parts, n, db, db_dtype, db_adds);
    if (dx) gpu_line(on, &rp__gpu_layernorm_dx, gpu_row_blocks(rows, team), &d);
}

void rp__gpu_op_column_sum(rp_dtype dtype, const void *x, int64_t rows, int64_t n, void *sum, rp_dtype sum_dtype, bool adds, const rp_on *on)
{
    columns_args args = { gpu_address(x), gpu_address(sum), rows, n, (int)dtype, (int)sum_dtype, adds, 0 };
    int64_t fit       = n ? RP_GPU_ROOM_BYTES / (n * (int64_t)sizeof(float)) : 0;
    int parts         = fit < parts_of(rows) ? (int)fit : parts_of(rows);

    if (parts < 2) {
        gpu_line(on, &rp__gpu_column_sum, gpu_blocks(n, 16), &args);
        return;
    }
    float *room          = rp__gpu_room(on, parts * n * (int64_t)sizeof(float));
    norm_parts_args sums = { .dy = gpu_address(x), .db = gpu_address(room), .rows = rows, .n = n, .parts = parts, .dtype = (int)dtype,
                             .packed = gpu_packed(n, x, NULL, NULL, NULL) };
    rp__gpu_launch(on, &rp__gpu_norm_parts, gpu_blocks(n, 32 * PACK), parts, 1, &sums);
    add_parts(on, room, parts, n, sum, sum_dtype, adds);
}

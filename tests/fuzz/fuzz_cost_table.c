/* fuzz_cost_table.c -- any bytes as a cost table: refused with a sentence, of another version, or a table that gives times and is written
 * and read back the same. */
#include "fuzz.h"

#include <math.h>

#include "cost/internal.h"

static void check_rows(const rp_cost_table *t)
{
    for (int op = 0; op <= rp__op_count(); op++)
        for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++)
            for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) {
                const rp_cost_row *r = rp__cost_row(t, op, rp__cost_dtypes[d], pass);
                FUZZ_CHECK(r->overhead >= 0 && isfinite(r->overhead));
                FUZZ_CHECK(r->rate == 0 ? op < rp__op_count() : isfinite(r->rate) && r->bandwidth > 0 && isfinite(r->bandwidth));
            }
    for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++) FUZZ_CHECK(rp__cost_move(t, rp__cost_dtypes[d], 1) > 0);
}

static void write_and_read(rp_ctx *ctx, const rp_cost_table *t)
{
    rp_cost_table *back = NULL;
    char *text          = NULL;
    bool foreign;

    FUZZ_CHECK(rp__cost_text(ctx, t, &text) == RP_OK);
    FUZZ_CHECK(rp__cost_parse(ctx, "input", text, (int64_t)strlen(text), &foreign, &back) == RP_OK && !foreign);
    FUZZ_CHECK(rp__cost_hash(back) == rp__cost_hash(t) && !strcmp(rp__cost_machine(back), rp__cost_machine(t)));
    rp__cost_table_free(back);
    rp__release(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx      = fuzz_ctx();
    rp_cost_table *t = NULL;
    bool foreign     = false;
    rp_status status = rp__cost_parse(ctx, "input", (const char *)data, (int64_t)size, &foreign, &t);

    if (status != RP_OK) fuzz_refused(ctx, status);
    FUZZ_CHECK(status == RP_OK && !foreign ? t != NULL : t == NULL);
    if (!t) return 0;
    check_rows(t);
    write_and_read(ctx, t);
    rp__cost_table_free(t);
    return 0;
}

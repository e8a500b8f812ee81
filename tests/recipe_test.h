/* recipe_test.h -- a recipe read from text, its report, and claims about both. */
#ifndef RP_RECIPE_TEST_H
#define RP_RECIPE_TEST_H

#include "rp_test.h"

#include "recipe/internal.h"

#define MODEL "model: {path: m.gguf}\n"

typedef struct { rp_ctx *ctx; rp_report report; rp_recipe *recipe; rp_status status; } reading;

static inline reading read_with(const char *text, int n, const char *const *setting)
{
    reading r = { .ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true }) };

    rp__report_open(&r.report, r.ctx);
    r.status = rp__recipe_read(r.ctx, "r.yaml", text, (int64_t)strlen(text), n, setting, &r.report, &r.recipe);
    return r;
}

static inline reading read_one(const char *text, const char *setting)
{
    return read_with(text, setting ? 1 : 0, &setting);
}

static inline void end(reading *r)
{
    rp__recipe_free(r->recipe);
    rp__report_close(&r->report);
    test_ctx_free(r->ctx);
}

static inline const char *line_of(const rp_report_item *item, char out[1024])
{
    return item ? rp__report_line(item, out, 1024) : "nothing";
}

static inline void assert_read(const reading *r)
{
    char line[1024];

    if (r->status != RP_OK) fail_msg("refused: %s", line_of(r->report.first, line));
}

/* Some message of the report is exactly this. */
static inline void assert_reported(const reading *r, const char *wanted)
{
    char line[1024], all[8192] = "";

    for (const rp_report_item *item = r->report.first; item; item = item->next) {
        if (!strcmp(line_of(item, line), wanted)) return;
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "\n  %s", line);
    }
    fail_msg("'%s' is missing; reported:%s", wanted, all);
}

static inline void assert_error(const char *text, const char *setting, const char *wanted)
{
    reading r = read_one(text, setting);

    assert_reported(&r, wanted);
    assert_int_equal(r.status, RP_ERR_CONFIG);
    assert_null(r.recipe);
    end(&r);
}

static inline char *written(const reading *r)
{
    rp_bump bump = { .ctx = r->ctx };
    const char *text;

    assert_ok(r->ctx, rp__recipe_write(r->recipe, &bump, &text));
    char *copy = strdup(text);
    rp__bump_free(&bump);
    return copy;
}

#endif

/* Any bytes as a recipe: read, and what was read is written and read again to the same text. */
/* ctest: watched */
#include "recipe/recipe.h"

static rp_recipe *read_recipe(rp_ctx *ctx, const char *text, int64_t bytes)
{
    rp_recipe *recipe = NULL;
    rp_report report;

    rp__report_open(&report, ctx);
    rp_status status = rp__recipe_read(ctx, "fuzz.yaml", text, bytes, 0, NULL, &report, &recipe);
    RP_BUG_IF((status == RP_OK) != (recipe != NULL));
    rp__report_close(&report);
    return recipe;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_bump bump = { 0 };
    const char *first, *second;
    rp_ctx *ctx;

    if (rp_ctx_new(&(rp_ctx_options){ .threads = 1, .shapes_only = true }, &ctx) != RP_OK) return 0;
    bump.ctx         = ctx;
    rp_recipe *recipe = read_recipe(ctx, (const char *)data, (int64_t)size);
    if (recipe && rp__recipe_write(recipe, &bump, &first) == RP_OK && strlen(first) < RP_YAML_MAX_BYTES) {
        rp_recipe *again = read_recipe(ctx, first, (int64_t)strlen(first));
        RP_BUG_IF(!again);
        RP_BUG_IF(rp__recipe_write(again, &bump, &second) != RP_OK || strcmp(first, second));
        rp__recipe_free(again);
    }
    rp__recipe_free(recipe);
    rp__bump_free(&bump);
    rp_ctx_free(ctx);
    return 0;
}

/* config_parse.h -- one config.json read per test, and what was said of it. Included behind the test's `ctx`. */
#ifndef RP_CONFIG_PARSE_H
#define RP_CONFIG_PARSE_H

#include "models/config.h"
#include "models/family.h"

static rp_report report;
static rp_model_config config;

/* Single quotes stand for double ones; `overrides` is YAML or NULL. */
static inline rp_status parse(const char *text, const char *overrides)
{
    char json[4096];
    rp_yaml_doc doc    = { .bump = { .ctx = ctx } };
    rp_yaml_node *tree = NULL;

    rp__report_close(&report);
    rp__model_config_drop(&config);
    assert_in_range(snprintf(json, sizeof json, "%s", text), 0, sizeof json - 1);
    for (char *p = json; *p; p++) *p = *p == '\'' ? '"' : *p;
    json_t *value = json_loads(json, 0, NULL);
    if (!value) fail_msg("no JSON: %s", json);
    if (overrides) assert_ok(ctx, rp__yaml_parse(&doc, "recipe.yaml", overrides, (int64_t)strlen(overrides), &report, &tree));
    rp_status status = rp__model_config_parse(ctx, "config.json", value, tree, &report, &config);
    json_decref(value);
    rp__bump_free(&doc.bump);
    assert_int_equal(status == RP_OK, config.source != NULL);
    return status;
}

static inline bool reported(const char *text)
{
    char line[RP_ERROR_CHARS];

    for (const rp_report_item *item = report.first; item; item = item->next)
        if (strstr(rp__report_line(item, line, sizeof line), text)) return true;
    return false;
}

#endif

/* recipe/resume.c -- compares a recipe with the one of the state to resume, key by key; the table says which keys may change. */
#include "recipe/internal.h"

#include "base/report.h"

/* The keys that share the batch among ranks are judged by their product. */
static bool may_change(const rp_recipe_key *key)
{
    return (key->flags & (KEY_FREE | KEY_SHARE)) || !strncmp(key->path, "dataset_val.", 12);
}

static void check_key(const rp_recipe *before, const rp_recipe *now, const rp_recipe_key *key, rp_report *report)
{
    rp_yaml_doc doc = { .bump = report->bump };              /* the texts are allocated in the report's bump, which frees them */
    const char *old, *new;
    rp_status status = rp__recipe_value_text(before, key, &doc, &old);

    if (status == RP_OK) status = rp__recipe_value_text(now, key, &doc, &new);
    report->bump = doc.bump;
    if (status != RP_OK) report->lost = true;
    else if (strcmp(old, new))
        rp__report_error(report, rp__recipe_place(now, key->path), "'%s' is %.80s, but the run to resume has %.80s",
                         key->path, new, old);
}

void rp__recipe_check_resume(const rp_recipe *before, int64_t before_ranks, const rp_recipe *now, int64_t now_ranks,
                             rp_report *report)
{
    int64_t old_batch = before_ranks * before->batch_size * before->gradient_accumulation_steps;
    int64_t new_batch = now_ranks * now->batch_size * now->gradient_accumulation_steps;

    if (old_batch != new_batch)
        rp__report_error(report, rp__recipe_place(now, "batch_size"),
                         "the global batch is %" PRId64 " samples (ranks * batch_size * gradient_accumulation_steps), but "
                         "the run to resume has %" PRId64, new_batch, old_batch);
    for (int i = 0; i < rp__recipe_n_keys; i++)
        if (!may_change(&rp__recipe_keys[i])) check_key(before, now, &rp__recipe_keys[i], report);
}

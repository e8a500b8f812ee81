/* Any bytes as the hub's list of files: refused with a sentence, or names that stay inside the folder. */
#include "cli/hub/hub.h"

#include "fuzz.h"

static void check(const hub_file *file)
{
    FUZZ_CHECK(hub_name_is_safe(file->name) && file->name[0] && file->name[0] != '/' && !strstr(file->name, "/../") && strncmp(file->name, "../", 3));
    FUZZ_CHECK(file->bytes >= -1);
    FUZZ_CHECK(strlen(file->digest) == (file->kind == HUB_SHA256 ? 64 : file->kind == HUB_GIT_SHA1 ? 40 : 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx      = fuzz_ctx();
    rp_bump bump     = { .ctx = ctx };
    hub_listing list = { .n = 0 };

    rp_status status = hub_listing_read(&bump, (const char *)data, (int64_t)size, &list);
    for (int64_t i = 0; status == RP_OK && i < list.n; i++) check(&list.file[i]);
    if (status == RP_OK) status = hub_choose(ctx, &list, NULL);
    if (status == RP_OK) (void)hub_check_index(ctx, &list, (const char *)data, (int64_t)size);
    if (status != RP_OK && status != RP_ERR_MATCH) fuzz_refused(ctx, status);
    rp__bump_free(&bump);
    return 0;
}

/* fuzz_safetensors_index.c -- any bytes as a model.safetensors.index.json: refused, or every shard is a name within its folder. */
#include "fuzz.h"

#include "safetensors/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx        = fuzz_ctx();
    json_t *weight_map = NULL, *shard;
    const char *name;
    rp_status status = rp__st_index_parse(ctx, "input", (const char *)data, (int64_t)size, &weight_map);

    if (status != RP_OK) {
        FUZZ_CHECK(!weight_map);
        fuzz_refused(ctx, status);
        return 0;
    }
    json_object_foreach(weight_map, name, shard) {
        const char *file = json_string_value(shard);
        FUZZ_CHECK(file && *file && !strchr(file, '/') && strcmp(file, ".."));
    }
    json_decref(weight_map);
    return 0;
}

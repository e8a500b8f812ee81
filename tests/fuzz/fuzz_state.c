/* fuzz_state.c -- any bytes as a state's folder: state.json to the first zero, then a file of tensors, which stands for each part.
 * Refused with a sentence, or whole, and it loads where the names and shapes are the run's.
 *
 * Checksums keep changed bytes from going far, so the input is also tried with all of them put right. */
/* ctest: watched */
#include "fuzz_folder.h"

#include "base/checksum.h"
#include "state/json.h"

static void load(rp_ctx *ctx, rp_state *state)
{
    rp_meta m = { .dtype = RP_F32, .ndim = 2, .dim = { 2, 3 } };
    rp_tensor *tensor;

    FUZZ_CHECK(rp__tensor_new_named(ctx, &m, RP_MEM_PARAM, "w", &tensor) == RP_OK);
    rp_state_tensor w = { .name = "w", .tensor = tensor };
    rp_status status  = rp__state_load(state, &w, 1);
    FUZZ_CHECK(status == RP_OK || status == RP_ERR_CONFIG);
    rp_tensor_unref(tensor);
}

static void open_folder(const char *json, size_t json_bytes, const uint8_t *tensors, size_t bytes)
{
    rp_ctx *ctx     = fuzz_ctx();
    rp_state *state = NULL;

    fuzz_file("state.json", json, json_bytes);
    fuzz_file("tensors.safetensors", tensors, bytes);
    fuzz_file("tensors-0-of-2.safetensors", tensors, bytes);
    fuzz_file("tensors-1-of-2.safetensors", tensors, bytes);
    rp_status status = rp__state_open(ctx, fuzz_folder(), &state);
    if (status != RP_OK) {
        FUZZ_CHECK(!state);
        fuzz_refused(ctx, status);
        return;
    }
    FUZZ_CHECK(rp__state_info(state)->step >= 0 && rp__state_info(state)->recipe);
    load(ctx, state);
    rp__state_close(state);
}

static uint64_t sum_of(const rp_safetensors *set, const rp_safetensor *t)
{
    rp_checksum sum = rp__checksum_begin();

    rp__checksum_add(&sum, rp__safetensors_bytes(set, t), t->bytes);
    return rp__checksum_end(&sum);
}

/* Once for each of two parts. */
static json_t *number_for(int parts, uint64_t sum)
{
    unsigned long long value = sum;
    char text[48];

    if (parts == 2) snprintf(text, sizeof text, "%016llx %016llx", value, value);
    else snprintf(text, sizeof text, "%016llx", value);
    return json_string(text);
}

static void put_tensors_right(json_t *root, const uint8_t *tensors, size_t bytes)
{
    rp_safetensors *set = NULL;
    bool old            = !json_object_get(root, "parts");
    json_t *listed      = json_object_get(root, "tensors");
    uint64_t part       = 0;

    if (rp__safetensors_open_bytes(fuzz_ctx(), "input", tensors, (int64_t)bytes, &set) != RP_OK) return;
    for (int64_t i = 0; i < rp__safetensors_n_tensors(set); i++) {
        const rp_safetensor *t = rp__safetensors_at(set, i);
        json_t *entry          = json_object_get(listed, t->name);
        part += rp__state_json_mark(t->name, sum_of(set, t));
        json_t *sums           = number_for((int)json_integer_value(json_object_get(root, "parts")), sum_of(set, t));
        if (old && entry) json_object_set_new(listed, t->name, sums);
        else if (json_object_get(entry, "checksums")) json_object_set_new(entry, "checksums", sums);
        else json_decref(sums);
    }
    if (rp__state_json_sums_parts(root)) json_object_set_new(root, "part_checksums", number_for(2, part));
    rp__safetensors_close(set);
}

/* As state.json says of itself: over its compact text with sorted keys, "checksum" left out. */
static void put_json_right(json_t *root)
{
    char sum[20];

    json_object_del(root, "checksum");
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text) return;
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)rp__hash(text, strlen(text), RP_HASH_START));
    json_object_set_new(root, "checksum", json_string(sum));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t json_bytes   = zero ? (size_t)(zero - data) : size;
    const uint8_t *rest = zero ? zero + 1 : data + size;
    size_t rest_bytes   = (size_t)(data + size - rest);

    open_folder((const char *)data, json_bytes, rest, rest_bytes);
    json_t *root = json_loadb((const char *)data, json_bytes, 0, NULL);
    if (json_is_object(root)) {
        put_tensors_right(root, rest, rest_bytes);
        put_json_right(root);
        char *text = json_dumps(root, JSON_COMPACT);
        if (text) open_folder(text, strlen(text), rest, rest_bytes);
        free(text);
    }
    json_decref(root);
    return 0;
}

/* Any bytes as a list of rules: read, and what was read is asked about slots, twice alike. Libraries are not opened. */
/* ctest: watched */
#include "policy/policy.h"

#include "fuzz.h"

static void ask_all(rp_policy *policy, int fate[4])
{
    static const rp_slot_info slot[4] = {
        { .path = "layers.0.attn.q", .op = "matmul", .bytes = 4096, .flops = 1000 },
        { .path = "layers.0.attn", .op = "attention", .by_product = true, .bytes = 64 },
        { .path = "layers.1.mlp", .op = "swiglu", .call = 1, .bytes = INT64_MAX, .flops = INT64_MAX },
        { .path = "", .op = "" },
    };

    rp__policy_reset(policy);
    for (int i = 0; i < 4; i++) {
        rp_answer answer;
        FUZZ_CHECK(rp__policy_ask(policy->ctx, policy, &slot[i], &answer) == RP_OK);
        FUZZ_CHECK(answer.fate >= RP_KEEP && answer.fate <= RP_NO_FATE && answer.by);
        fate[i] = answer.fate;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx       = fuzz_ctx();
    rp_policy *policy = NULL;
    int first[4], second[4];
    rp_report report;
    char *text = malloc(size + 1);

    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = 0;
    rp__report_open(&report, ctx);
    rp_status status = rp__policy_parse(ctx, "fuzz", text, &report, &policy);
    FUZZ_CHECK((status == RP_OK) == (policy != NULL) && (status == RP_OK || status == RP_ERR_CONFIG));
    FUZZ_CHECK(policy || (rp_error(ctx)[0] && !strchr(rp_error(ctx), '\n')));
    if (policy) {
        ask_all(policy, first);
        ask_all(policy, second);
        FUZZ_CHECK(!memcmp(first, second, sizeof first));
    }
    rp_policy_free(policy);
    rp__report_close(&report);
    free(text);
    return 0;
}

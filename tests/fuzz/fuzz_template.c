/* Any text as a chat template: refused in one sentence, or run on a conversation, twice alike and with its answers in order. */
#include "template/chat.h"

#include "fuzz.h"

static json_t *variables(void)
{
    static json_t *made;

    if (!made)
        made = json_loads(
            "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"a\\nb é\"},"
            " {\"role\": \"assistant\", \"content\": \" c \", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5, null]}}}]}],"
            " \"tools\": null, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_generation_prompt\": true}",
            0, NULL);
    FUZZ_CHECK(made);
    return made;
}

static void check_spans(const rp_template_text *text)
{
    int64_t last = 0;

    for (int64_t i = 0; i < text->n_spans; i++) {
        FUZZ_CHECK(text->span[i].from >= 0 && text->span[i].from <= text->span[i].to && text->span[i].to <= text->bytes);
        FUZZ_CHECK(text->span[i].to >= last);       /* an inner one ends first */
        last = text->span[i].to;
    }
    FUZZ_CHECK(text->text[text->bytes] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx           = fuzz_ctx();
    rp_template *template = NULL;
    rp_template_text one  = { 0 }, two = { 0 };
    rp_status status      = rp__template_new(ctx, "fuzz", (const char *)data, (int64_t)size, &template);

    if (status == RP_OK) status = rp__template_render(template, variables(), RP_CHAT_DATE, &one);
    if (status != RP_OK) fuzz_refused(ctx, status);
    else {
        check_spans(&one);
        FUZZ_CHECK(rp__template_render(template, variables(), RP_CHAT_DATE, &two) == RP_OK);
        FUZZ_CHECK(one.bytes == two.bytes && !memcmp(one.text, two.text, (size_t)one.bytes));
    }
    rp__template_text_free(&one);
    rp__template_text_free(&two);
    rp__template_free(template);
    return 0;
}

/* tokenizer/text_ids.c -- encodes a file window by window: see text_ids.h. */
#include "tokenizer/text_ids.h"

enum { WINDOW_BYTES = 1 << 16 };

static rp_status encode_part(rp_encode_part encode, void *encoder, const char *text, int64_t bytes, int part, rp_take_ids take, void *user)
{
    int32_t *ids     = NULL;
    int64_t n        = 0;
    rp_status status = encode(encoder, text, bytes, (rp_text_part)part, &ids, &n);

    if (status == RP_OK && n) status = take(user, ids, n);
    rp__release(ids);
    return status;
}

/* The encoder gets each window, and the end of the text when the file has no more. */
rp_status rp__text_ids(rp_ctx *ctx, rp_text_file *file, rp_encode_part encode, void *encoder, rp_take_ids take, void *user)
{
    char *window = rp__host_alloc(ctx, WINDOW_BYTES);
    int part     = RP_TEXT_BEGINS;
    int64_t n    = 0;
    rp_status status;

    if (!window) return RP_ERR_MEMORY;
    for (; !(part & RP_TEXT_ENDS); part &= ~RP_TEXT_BEGINS) {
        RP_TRY_GOTO(rp__text_file_read(file, window, WINDOW_BYTES, &n));
        if (!n) part |= RP_TEXT_ENDS;
        RP_TRY_GOTO(encode_part(encode, encoder, window, n, part, take, user));
    }
done:
    rp__release(window);
    return status;
}

rp_status rp__text_ids_feed(void *tokenizer, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids)
{
    return rp__tokenizer_feed(tokenizer, text, bytes, part, ids, n_ids);
}

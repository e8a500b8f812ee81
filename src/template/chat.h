/* template/chat.h -- a conversation as a model's chat template writes it, and which of its text is answers.
 *
 *   {"messages": [system, user, assistant, user, assistant]}
 *
 *   <s>system … user … assistant: Hello!<end>user … assistant: Bye.<end>
 *                                 ^^^^^^^^^^^                  ^^^^^^^^^     answers: all that the model says, its stop included
 *
 * A template that marks answers ({% generation %}) is believed. Else what a message adds is found by running the template on the
 * conversation up to it: an answer begins where the text up to it, asked to go on (add_generation_prompt), ends, and it ends where
 * the text with it does. Some templates write earlier answers otherwise once others follow (a train of thought is left out); such a
 * conversation becomes a text for each answer, as the model meets it when it is to give that answer.
 */
#ifndef RP_TEMPLATE_CHAT_H
#define RP_TEMPLATE_CHAT_H

#include <jansson.h>

#include "template/template.h"

typedef struct rp_chat rp_chat;

/* The second that strftime_now tells: 2024-07-26, the date that templates of Llama 3 fall back to. Text to train on must not depend
 * on the day. */
#define RP_CHAT_DATE INT64_C(1721952000)

/* The template beside a tokenizer: of a folder or a file in it chat_template.jinja, chat_template.json or tokenizer_config.json (of
 * several named ones "default"), of a .gguf file its metadata. `file`, where it is not NULL, is a template to take in place of it.
 * Special tokens are the tokenizer's either way. *out is NULL where there is none.
 * errors  RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_UNSUPPORTED as rp__template_new */
rp_status rp__chat_load(rp_ctx *ctx, const char *path, const char *file, rp_chat **out);
/* `tokens` is a map of names and special tokens, {"bos_token": "<s>"}; may be NULL. */
rp_status rp__chat_new(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, const json_t *tokens, rp_chat **out);
void rp__chat_free(rp_chat *chat);

/* Is a message one of the model's, by its role: assistant or model? */
bool rp__chat_is_answer(const json_t *message);

/* Told of each text, once or more; the spans are its answers, in order. What it is given dies when it returns. */
typedef rp_status (*rp_chat_fn)(void *user, const rp_template_text *text);

/* `messages` is a list of maps with role and content, handed to the template as it is; `tools`, a list, may be NULL. With `answers`
 * the spans are found; without, there is one text and no span.
 * errors  RP_ERR_FORMAT the template refuses the conversation · as rp__template_render · what fn returns */
rp_status rp__chat_render(rp_chat *chat, const json_t *messages, const json_t *tools, bool answers, rp_chat_fn fn, void *user);

/* The conversation up to where the next answer begins, for the model to go on. The text is yours: rp__template_text_free.
 * errors  RP_ERR_FORMAT the template refuses the conversation · as rp__template_render */
rp_status rp__chat_ask(rp_chat *chat, const json_t *messages, rp_template_text *out);

#endif

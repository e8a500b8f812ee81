/* template/chat.h -- renders a conversation with a model's chat template and marks the answers in the text.
 *
 *   {"messages": [system, user, assistant, user, assistant]}
 *
 *   <s>system … user … assistant: Hello!<end>user … assistant: Bye.<end>
 *                                 ^^^^^^^^^^^                  ^^^^^^^^^     answers: what the model says, including its stop token
 *
 * If a template marks answers ({% generation %}), these marks are used. Otherwise the template is run on the conversation up to each message:
 * an answer begins where the text before it, rendered with add_generation_prompt, ends; it ends where the text with it ends.
 * Some templates change earlier answers when further messages follow (for example, they drop the reasoning). Such a conversation becomes one
 * text per answer: the text that the model sees when it gives that answer.
 */
#ifndef RP_TEMPLATE_CHAT_H
#define RP_TEMPLATE_CHAT_H

#include <jansson.h>

#include "template/template.h"

typedef struct rp_chat rp_chat;

/* The time that strftime_now returns, in seconds since 1970: 2024-07-26, the default date of Llama 3 templates. Training text must not depend on the
 * current date. */
#define RP_CHAT_DATE INT64_C(1721952000)

/* Load the template stored with a tokenizer. For a folder, or a file in it: chat_template.jinja, chat_template.json or tokenizer_config.json (of
 * several named templates "default"). For a .gguf file: its metadata. If `file` is not NULL, the template is read from that file instead; the special
 * tokens are still the tokenizer's. *out is NULL if there is no template.
 * errors  RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_UNSUPPORTED as rp__template_new · RP_ERR_MEMORY */
rp_status rp__chat_load(rp_ctx *ctx, const char *path, const char *file, rp_chat **out);
/* Find the text of that template. *text is yours to rp__release; NULL: there is none. errors RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_MEMORY */
rp_status rp__chat_text(rp_ctx *ctx, const char *path, char **text, int64_t *bytes);
/* Create one from a template's text. `tokens` maps names to special tokens, {"bos_token": "<s>"}; may be NULL. errors as rp__template_new */
rp_status rp__chat_new(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, const json_t *tokens, rp_chat **out);
void rp__chat_free(rp_chat *chat);

/* Is the message one of the model's, that is, is its role assistant or model? */
bool rp__chat_is_answer(const json_t *message);

/* Receives one text per call; its spans are the answers, in order. The text is freed when the function returns. */
typedef rp_status (*rp_chat_fn)(void *user, const rp_template_text *text);

/* Render a conversation and call fn once, or once per answer. `messages` is a list of maps with role and content and is passed to the template
 * unchanged. `tools` is a list or NULL. Without `answers` there is one text and no spans.
 * errors  RP_ERR_FORMAT the template refuses the conversation · as rp__template_render · as fn */
rp_status rp__chat_render(rp_chat *chat, const json_t *messages, const json_t *tools, bool answers, rp_chat_fn fn, void *user);

/* Render the conversation up to where the next answer begins, for the model to continue.
 * owner   the text is yours: rp__template_text_free
 * errors  RP_ERR_FORMAT the template refuses the conversation · as rp__template_render */
rp_status rp__chat_ask(rp_chat *chat, const json_t *messages, rp_template_text *out);

#endif

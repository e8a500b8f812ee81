/* base/json_text.h -- JSON as text and back, also when memory runs out.
 *
 * jansson looks past some of its own failed allocations: json_dumps may give a text with a key missing, json_loadb a number with digits missing, or
 * call good text malformed, or write past its buffers; json_copy may leave keys out. These give all of it or NULL.
 */
#ifndef RP_JSON_TEXT_H
#define RP_JSON_TEXT_H

#include <jansson.h>

/* `flags` are those of json_dumps. NULL: no memory, or no JSON. owner: yours to free */
char *rp__json_text(const json_t *value, size_t flags);

/* As json_loadb; `error` may be NULL. If an allocation failed, the error's code is json_error_out_of_memory, and its text "memory ran out". */
json_t *rp__json_read(const char *text, size_t bytes, size_t flags, json_error_t *error);

/* As json_copy and json_deep_copy. NULL: no memory */
json_t *rp__json_copy(const json_t *value);
json_t *rp__json_deep_copy(const json_t *value);

#endif

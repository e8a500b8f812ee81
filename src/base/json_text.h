/* base/json_text.h -- JSON written to text and read back, safely even if memory runs out.
 *
 * jansson ignores some of its own failed allocations. json_dumps may omit a key. json_loadb may drop digits of a number, reject valid text or
 * write beyond its buffers. json_copy may omit keys. The functions here return the complete result or NULL.
 */
#ifndef RP_JSON_TEXT_H
#define RP_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* `flags` are those of json_dumps. NULL: memory ran out, or `value` is not JSON. owner: yours to free */
char *rp__json_text(const json_t *value, size_t flags);

/* Like json_loadb; `error` may be NULL. If an allocation failed, the error's code is json_error_out_of_memory and its text "memory ran out". */
json_t *rp__json_read(const char *text, size_t bytes, size_t flags, json_error_t *error);

/* Like json_copy and json_deep_copy. NULL: memory ran out */
json_t *rp__json_copy(const json_t *value);
json_t *rp__json_deep_copy(const json_t *value);

/* Hash the object without one of its keys. Returns false if memory runs out. */
bool rp__json_hash_without(const json_t *object, const char *key, uint64_t *out);

/* Number of jansson's allocations that failed in this thread so far. If it grew while code built JSON, parts of that JSON may be missing. The
 * program's first call starts the count. */
int64_t rp__json_lost(void);

#endif

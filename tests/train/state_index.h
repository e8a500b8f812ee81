/* state_index.h -- a state.json changed by hand, and written back as if it had been written so: with the checksum of what it says now. */
#ifndef RP_TEST_STATE_INDEX_H
#define RP_TEST_STATE_INDEX_H

#include <jansson.h>

static inline json_t *read_state_index(const char *path)
{
    json_t *root = json_load_file(path, 0, NULL);

    assert_non_null(root);
    return root;
}

/* Takes the root. */
static inline void write_state_index(const char *path, json_t *root)
{
    char hex[17];

    json_object_del(root, "checksum");
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    assert_non_null(text);
    snprintf(hex, sizeof hex, "%016" PRIx64, rp__hash(text, strlen(text), RP_HASH_START));
    assert_int_equal(json_object_set_new(root, "checksum", json_string(hex)), 0);
    assert_int_equal(json_dump_file(root, path, JSON_INDENT(1)), 0);
    free(text);
    json_decref(root);
}

#endif

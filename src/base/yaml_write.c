/* base/yaml_write.c -- writes a tree as YAML text through libyaml's emitter. A quoted scalar stays quoted, so that
 * "null" and "7" are read as text again; a list of plain scalars is written on one line. */
#include "base/yaml.h"

#include <yaml.h>

typedef struct {
    rp_bump *bump;
    char *text;
    int64_t used_bytes, size_bytes;
} sink;

static int yaml_write_take(void *user, unsigned char *data, size_t bytes)
{
    sink *s = user;
    int64_t need = s->used_bytes + (int64_t)bytes + 1;

    if (need > s->size_bytes) {
        char *more = rp__bump_alloc(s->bump, 2 * need);
        if (!more) return 0;
        if (s->used_bytes) memcpy(more, s->text, (size_t)s->used_bytes);
        s->text       = more;
        s->size_bytes = 2 * need;
    }
    memcpy(s->text + s->used_bytes, data, bytes);
    s->used_bytes += (int64_t)bytes;
    s->text[s->used_bytes] = 0;
    return 1;
}

static bool is_flat(const rp_yaml_node *node)
{
    for (const rp_yaml_node *child = node->first; child; child = child->next)
        if (child->kind != RP_YAML_SCALAR) return false;
    return true;
}

static bool emit_scalar(yaml_emitter_t *emitter, const char *text, bool quoted)
{
    yaml_event_t event;

    return yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text, (int)strlen(text), !quoted, true,
                                        quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE) &&
           yaml_emitter_emit(emitter, &event);
}

static bool emit_node(yaml_emitter_t *emitter, const rp_yaml_node *node)
{
    yaml_event_t event;
    bool is_list = node->kind == RP_YAML_LIST;

    if (node->kind == RP_YAML_SCALAR) return emit_scalar(emitter, node->text, node->quoted);
    bool made = is_list ? yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, is_flat(node) ?
                                                               YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE)
                        : yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, node->n ?
                                                              YAML_BLOCK_MAPPING_STYLE : YAML_FLOW_MAPPING_STYLE);
    if (!made || !yaml_emitter_emit(emitter, &event)) return false;
    for (const rp_yaml_node *child = node->first; child; child = child->next) {
        if (!is_list && !emit_scalar(emitter, child->key, !strcmp(child->key, "<<"))) return false;
        if (!emit_node(emitter, child)) return false;
    }
    made = is_list ? yaml_sequence_end_event_initialize(&event) : yaml_mapping_end_event_initialize(&event);
    return made && yaml_emitter_emit(emitter, &event);
}

static bool emit_document(yaml_emitter_t *emitter, const rp_yaml_node *node)
{
    yaml_event_t event;

    return yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) && yaml_emitter_emit(emitter, &event) &&
           yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) && yaml_emitter_emit(emitter, &event) &&
           emit_node(emitter, node) &&
           yaml_document_end_event_initialize(&event, 1) && yaml_emitter_emit(emitter, &event) &&
           yaml_stream_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

rp_status rp__yaml_write(rp_bump *bump, const rp_yaml_node *node, const char **out)
{
    sink s = { .bump = bump };
    yaml_emitter_t emitter;

    RP_CHECK(bump->ctx, yaml_emitter_initialize(&emitter), RP_ERR_MEMORY, "cannot allocate host memory to write YAML");
    yaml_emitter_set_output(&emitter, yaml_write_take, &s);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, -1);
    bool done = emit_document(&emitter, node);
    yaml_emitter_delete(&emitter);
    RP_CHECK(bump->ctx, done, RP_ERR_MEMORY, "cannot allocate host memory to write YAML");
    *out = s.text;
    return RP_OK;
}

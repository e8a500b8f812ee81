/* base/yaml.h -- a YAML 1.1 or JSON text as a small tree with line numbers. libyaml does the reading.
 *
 *   doc     owns every node and every text (one rp_bump); trees of one document may share and be spliced
 *   scalar  text, and whether it stood plain or quoted: a schema types it, a quoted one is text only
 *   map     children have a key; a key that comes twice is an error, the first is kept
 *
 * Promises: depth at most 64, one document a text, no text with a NUL, at most RP_YAML_MAX_NODES nodes (aliases copy
 * what they name, merge keys too). Whatever breaks that is an error in the report with its line. */
#ifndef RP_YAML_H
#define RP_YAML_H

#include "base/report.h"

#define RP_YAML_MAX_DEPTH 64
#define RP_YAML_MAX_BYTES (INT64_C(1) << 20)
#define RP_YAML_MAX_NODES 100000

typedef enum { RP_YAML_SCALAR, RP_YAML_LIST, RP_YAML_MAP } rp_yaml_kind;

typedef struct rp_yaml_node rp_yaml_node;
struct rp_yaml_node {
    rp_yaml_kind kind;
    bool quoted;                       /* a scalar in quotes or a block: never null, bool or number */
    uint8_t mark;                      /* for walks that must meet a node once */
    int n;                             /* children */
    rp_place place;
    int key_line;
    const char *key;                   /* of a map's child */
    const char *text;                  /* of a scalar */
    rp_yaml_node *first, *last, *next;
};

typedef struct {
    rp_bump bump;
    int64_t n_nodes;
} rp_yaml_doc;

/* Add a text to the document. A text without content is an empty map. On RP_OK *out is a tree, though the report may
 * have errors (duplicate keys); RP_ERR_CONFIG: the text is not YAML and the report says where. */
rp_status rp__yaml_parse(rp_yaml_doc *doc, const char *origin, const char *text, int64_t bytes, rp_report *report,
                         rp_yaml_node **out);

rp_yaml_node *rp__yaml_new(rp_yaml_doc *doc, rp_yaml_kind kind, rp_place place);      /* NULL: memory, or too many nodes */
rp_yaml_node *rp__yaml_scalar(rp_yaml_doc *doc, const char *text, bool quoted, rp_place place);
rp_yaml_node *rp__yaml_copy(rp_yaml_doc *doc, const rp_yaml_node *node);
void rp__yaml_append(rp_yaml_node *parent, rp_yaml_node *child);
bool rp__yaml_remove(rp_yaml_node *map, const char *key);
/* The child of that key; NULL if there is none or `map` is NULL or no map. */
rp_yaml_node *rp__yaml_find(const rp_yaml_node *map, const char *key);
/* A plain scalar that says null: nothing, ~, null, Null, NULL or None. */
bool rp__yaml_is_null(const rp_yaml_node *node);
/* A plain scalar that YAML 1.1 takes for a truth value. */
bool rp__yaml_is_bool(const rp_yaml_node *node, bool *value);

/* The tree as YAML, in `bump`. Reading it gives the same tree: texts, quotes that matter, order. */
rp_status rp__yaml_write(rp_bump *bump, const rp_yaml_node *node, const char **out);

#endif

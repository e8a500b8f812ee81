/* base/yaml.h -- a YAML 1.1 or JSON text as a small tree with line numbers, read by libyaml.
 *
 *   doc     owns every node and every text (one rp_bump); trees of one document may share nodes and be spliced
 *   scalar  text, and whether it was quoted: a schema gives a plain scalar its type, a quoted one is only text
 *   map     children have a key; a duplicate key is an error, and the first one is kept
 *
 * Limits: depth at most 64, one document per text, no NUL characters, at most RP_YAML_MAX_NODES nodes (aliases and merge keys
 * copy the nodes they refer to). A text that violates one is an error in the report, with its line. */
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
    bool quoted;                       /* a scalar in quotes or a block scalar: never null, bool or number */
    uint8_t mark;                      /* for algorithms that must visit a node once */
    int n;                             /* number of children */
    rp_place place;
    int key_line;
    const char *key;                   /* of a child of a map */
    const char *text;                  /* of a scalar */
    rp_yaml_node *first, *last, *next;
};

typedef struct {
    rp_bump bump;
    int64_t n_nodes;
} rp_yaml_doc;

/* Parses a text into the document. A text without content is an empty map. On RP_OK *out is a tree, though the report may contain
 * errors (duplicate keys).
 * errors  RP_ERR_CONFIG the text is not YAML or exceeds a limit; the report has the line · RP_ERR_MEMORY */
rp_status rp__yaml_parse(rp_yaml_doc *doc, const char *origin, const char *text, int64_t bytes, rp_report *report,
                         rp_yaml_node **out);

rp_yaml_node *rp__yaml_new(rp_yaml_doc *doc, rp_yaml_kind kind, rp_place place);      /* NULL: memory ran out, or too many nodes */
rp_yaml_node *rp__yaml_scalar(rp_yaml_doc *doc, const char *text, bool quoted, rp_place place);
rp_yaml_node *rp__yaml_copy(rp_yaml_doc *doc, const rp_yaml_node *node);
void rp__yaml_append(rp_yaml_node *parent, rp_yaml_node *child);
bool rp__yaml_remove(rp_yaml_node *map, const char *key);
/* The child with that key; NULL if it is absent or `map` is NULL or not a map. */
rp_yaml_node *rp__yaml_find(const rp_yaml_node *map, const char *key);
/* Is it a plain scalar that means null: empty, ~, null, Null, NULL or None? */
bool rp__yaml_is_null(const rp_yaml_node *node);
/* Is it a plain scalar that YAML 1.1 reads as a boolean? */
bool rp__yaml_is_bool(const rp_yaml_node *node, bool *value);

/* Writes the tree as YAML, in `bump`. Reading it returns the same tree: texts, quotes that matter, order. errors RP_ERR_MEMORY */
rp_status rp__yaml_write(rp_bump *bump, const rp_yaml_node *node, const char **out);

#endif

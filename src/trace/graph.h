/* trace/graph.h -- graphs: a step's calls, values, bytes and seconds as JSON, so that other programs can read and write
 * them.
 *
 *   our own step ─────────── trace ── rp__graph_write ──▶ G.json ── rp__graph_read ──▶ trace with names ──▶ plan/graph.h
 *   a step of another framework, an invented step ─────▶
 *
 * docs/graphs.md describes the format. A graph has everything that a plan and its bounds are computed from, so no model is
 * needed.
 */
#ifndef RP_TRACE_GRAPH_H
#define RP_TRACE_GRAPH_H

#include "trace/trace.h"

enum { RP_GRAPH_VERSION = 1, RP_GRAPH_NAME_CHARS = 512 };

typedef struct {
    rp_trace trace;                     /* without order: `order` lists each pass once */
    int64_t budget;                     /* bytes; 0: none */
    double other_seconds;               /* of a step outside its calls: the optimizer's update */
    const char ***name;                 /* of each value of each pass */
} rp_graph;

/* Write a trace as a graph. budget 0: none. other_seconds: of the step outside its calls. The file is replaced completely
 * or not at all.
 * Errors: RP_ERR_IO, RP_ERR_MEMORY. */
rp_status rp__graph_write(rp_ctx *ctx, const char *path, const rp_trace *trace, int64_t budget, double other_seconds);

/* Read a graph. `file` is a name for messages. Close *out after success; after an error it is unchanged.
 * Errors: RP_ERR_FORMAT the text is no graph: the message names the file, the call or value, and the key; RP_ERR_IO;
 * RP_ERR_MEMORY. */
rp_status rp__graph_read(rp_ctx *ctx, const char *path, rp_graph *out);
rp_status rp__graph_parse(rp_ctx *ctx, const char *file, const char *text, int64_t bytes, rp_graph *out);
void rp__graph_close(rp_graph *graph);

#endif

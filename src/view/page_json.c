/* view/page_json.c -- writes the data for the script of a page: one JSON object of arrays, most of them with one value per buffer.
 *
 *   {"events": 10240, "budget": 0, "reserved": 1646750912, "peak": 1630000000, "overhead": 0.05,
 *    "classes": ["param", "grad", …],
 *    "bytes": [56623104, …], "offset": […],
 *    "begin": [0, 0, 3, …],                differences between neighbours: most are small
 *    "length": [10240, …],                 events from begin to end
 *    "class": "0024…",                     one digit per buffer, an index into classes
 *    "kept": [7, 12, 9000, …],             triples: a buffer, and the events between which it is saved
 *    "of": [0, 1, …],                      index into owners
 *    "owners": [4, 5, …],                  pairs: path, name                as indices into texts
 *    "works": [3, 6, 4, 7, …],             quadruples: difference of begin, phase, path, op      as indices into texts
 *    "texts": ["", "layers.0.mlp", …],
 *    "points": [[null, 1646750912, 0.013, false], …], "steps": […], "loss": […], "val": […], "lr": […]}
 *
 * Each text is stored once, because many calls and buffers share the path of a block.
 */
#include "view/page_internal.h"

#include <math.h>
#include <string.h>

/* ---- texts, each stored once ---- */

typedef struct { const char *text; int number; } known_text;
typedef struct { known_text *at; const char **text; int n, room; } text_table;

/* Room for all possible texts, in a table that is at most half full. */
static rp_status open_texts(rp_ctx *ctx, const rp_page *page, text_table *texts)
{
    int most = 2 * page->n_owners + 3 * page->n_works + 1;

    *texts = (text_table){ .room = 1 };
    while (texts->room < 2 * most) texts->room *= 2;
    texts->at   = rp__host_alloc(ctx, texts->room * (int64_t)sizeof *texts->at);
    texts->text = texts->at ? rp__host_alloc(ctx, most * (int64_t)sizeof *texts->text) : NULL;
    return texts->text ? RP_OK : RP_ERR_MEMORY;
}

static void close_texts(text_table *texts)
{
    RP_RELEASE(texts->at, texts->text);
}

static int page_json_number_of(text_table *texts, const char *text)
{
    for (uint64_t i = rp__hash(text, strlen(text), RP_HASH_START);; i++) {
        known_text *known = &texts->at[i & (uint64_t)(texts->room - 1)];
        if (!known->text) {
            *known                  = (known_text){ text, texts->n };
            texts->text[texts->n++] = text;
        }
        if (!strcmp(known->text, text)) return known->number;
    }
}

/* ---- arrays ---- */

static void put_integer(page_out *out, int i, int64_t value) { rp__page_print(out, "%s%" PRId64, i ? "," : "", value); }

#define PUT_ARRAY(name, n, value) \
    do { \
        rp__page_text(out, ",\n\"" name "\":["); \
        for (int i = 0; i < (n); i++) put_integer(out, i, (value)); \
        rp__page_text(out, "]"); \
    } while (0)
#define PUT_REALS(name, n, value) \
    do { \
        rp__page_text(out, ",\n\"" name "\":["); \
        for (int i = 0; i < (n); i++) { \
            if (i) rp__page_text(out, ","); \
            rp__page_number(out, (value)); \
        } \
        rp__page_text(out, "]"); \
    } while (0)

static void put_classes(page_out *out)
{
    for (int c = 0; c < RP_MEM_CLASSES; c++) {
        rp__page_text(out, c ? "," : ",\n\"classes\":[");
        rp__page_quoted(out, rp_mem_class_name((rp_mem_class)c));
    }
    rp__page_text(out, "]");
}

static void put_buffers(page_out *out, const rp_page *page)
{
    const rp_page_buffer *b = page->buffer;
    bool first              = true;

    PUT_ARRAY("bytes", page->n_buffers, b[i].bytes);
    PUT_ARRAY("offset", page->n_buffers, b[i].offset);
    PUT_ARRAY("begin", page->n_buffers, b[i].begin - (i ? b[i - 1].begin : 0));
    PUT_ARRAY("length", page->n_buffers, b[i].end - b[i].begin);
    PUT_ARRAY("of", page->n_buffers, b[i].owner);
    rp__page_text(out, ",\n\"class\":\"");
    for (int i = 0; i < page->n_buffers; i++) rp__page_print(out, "%d", (int)b[i].mem_class);
    rp__page_text(out, "\",\n\"kept\":[");
    for (int i = 0; i < page->n_buffers; i++) {
        if (b[i].kept_from < 0 || b[i].kept_until <= b[i].kept_from) continue;
        rp__page_print(out, "%s%d,%d,%d", first ? "" : ",", i, b[i].kept_from, b[i].kept_until);
        first = false;
    }
    rp__page_text(out, "]");
}

static void put_texts(page_out *out, const rp_page *page, text_table *texts)
{
    rp__page_text(out, ",\n\"owners\":[");
    for (int i = 0; i < page->n_owners; i++) {
        put_integer(out, i, page_json_number_of(texts, page->owner[i].path));
        put_integer(out, 1, page_json_number_of(texts, page->owner[i].name));
    }
    rp__page_text(out, "],\n\"works\":[");
    for (int i = 0; i < page->n_works; i++) {
        const rp_page_work *w = &page->work[i];
        put_integer(out, i, w->begin - (i ? page->work[i - 1].begin : 0));
        put_integer(out, 1, page_json_number_of(texts, w->phase));
        put_integer(out, 1, page_json_number_of(texts, w->path));
        put_integer(out, 1, page_json_number_of(texts, w->op));
    }
    rp__page_text(out, "],\n\"texts\":[");
    for (int i = 0; i < texts->n; i++) {
        if (i) rp__page_text(out, ",");
        rp__page_quoted(out, texts->text[i]);
    }
    rp__page_text(out, "]");
}

static void put_points(page_out *out, const rp_page *page)
{
    rp__page_text(out, ",\n\"points\":[");
    for (int i = 0; i < page->n_points; i++) {
        const rp_page_point *p = &page->point[i];
        rp__page_text(out, i ? ",[" : "[");
        if (p->name) rp__page_quoted(out, p->name);
        else rp__page_text(out, "null");
        rp__page_print(out, ",%" PRId64 ",", p->bytes);
        rp__page_number(out, p->overhead);
        rp__page_text(out, p->measured ? ",true]" : ",false]");
    }
    rp__page_text(out, "]");
}

static void put_losses(page_out *out, const rp_page *page)
{
    const rp_page_loss *l = page->loss;

    PUT_ARRAY("steps", page->n_losses, l[i].step);
    PUT_REALS("loss", page->n_losses, l[i].loss);
    PUT_REALS("val", page->n_losses, l[i].has_val ? l[i].val_loss : (double)NAN);
    PUT_REALS("lr", page->n_losses, l[i].lr);
}

void rp__page_data(page_out *out, const rp_page *page, const page_peak *peak)
{
    text_table texts;

    (void)peak;
    rp_status status = open_texts(out->ctx, page, &texts);
    if (status == RP_OK) {
        rp__page_print(out, "{\"events\":%d,\"budget\":%" PRId64 ",\"reserved\":%" PRId64 ",\"peak\":%" PRId64, page->n_events,
                       page->budget, page->reserved, page->peak);
        rp__page_text(out, ",\"overhead\":");
        rp__page_number(out, page->overhead);
        put_classes(out);
        put_buffers(out, page);
        put_texts(out, page, &texts);
        put_points(out, page);
        put_losses(out, page);
        rp__page_text(out, "}");
    } else if (out->status == RP_OK) out->status = status;
    close_texts(&texts);
}

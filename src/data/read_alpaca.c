/* data/read_alpaca.c -- reads the Alpaca format: an instruction, an optional input, and the output.
 *
 *   {"instruction": "Translate.", "input": "chat", "output": "cat"}
 *
 * The output is the answer (read_pair.c). With a chat template, the prompt is the instruction, an empty line, and the input. Without one, it is
 * the prompt of the Alpaca project (Taori et al., 2023). Other columns are ignored.
 */
#include "data/store.h"

#include <string.h>

typedef struct { rp_read_span part[5]; } prompt_parts;

static rp_read_span literal(const char *text) { return (rp_read_span){ text, (int64_t)strlen(text) }; }

static prompt_parts parts_of(bool by_template, rp_read_span instruction, rp_read_span input)
{
    if (by_template) return (prompt_parts){ { instruction, literal(input.bytes ? "\n\n" : ""), input } };
    if (!input.bytes)
        return (prompt_parts){ { literal("Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
                                         "### Instruction:\n"), instruction, literal("\n\n### Response:\n") } };
    return (prompt_parts){ { literal("Below is an instruction that describes a task, paired with an input that provides further context. Write a "
                                     "response that appropriately completes the request.\n\n### Instruction:\n"), instruction,
                             literal("\n\n### Input:\n"), input, literal("\n\n### Response:\n") } };
}

static rp_status put_parts(const rp_read_job *job, const char *place, const prompt_parts *p, rp_read_span output)
{
    int64_t room = 1, n = 0;

    for (int i = 0; i < RP_COUNT(p->part); i++) room += p->part[i].bytes;
    char *prompt = rp__host_alloc(job->ctx, room);
    if (!prompt) return RP_ERR_MEMORY;
    for (int i = 0; i < RP_COUNT(p->part); n += p->part[i++].bytes)
        if (p->part[i].bytes) memcpy(prompt + n, p->part[i].text, (size_t)p->part[i].bytes);
    rp_status status = rp__read_pair(job, place, (rp_read_span){ prompt, n }, output);
    rp__release(prompt);
    return status;
}

static rp_status put_object(const rp_read_job *job, const char *place, const json_t *object)
{
    static const char *const columns[] = { "instruction", "output", "input" };
    rp_read_span part[3];

    for (int i = 0; i < 3; i++) {
        RP_TRY(rp__read_column(job, place, object, columns[i], &part[i]));
        if (!part[i].text && i < 2) return rp__read_no_column(job, place, object, columns[i], "format");
    }
    prompt_parts parts = parts_of(job->config->by_template && job->source->chat, part[0], part[2]);
    return put_parts(job, place, &parts, part[1]);
}

rp_status rp__read_alpaca(const rp_read_job *job) { return rp__read_json(job, put_object); }

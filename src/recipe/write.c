/* recipe/write.c -- the resolved recipe as YAML, and the manual page of its keys. Both walk the table. */
#include "recipe/internal.h"

#include "base/bump.h"
#include "base/yaml.h"

#define AC "activation_checkpointing."

/* Left out: what the mode would call an error beside it, so that the written recipe reads back. */
static bool is_written(const rp_recipe *recipe, const char *path)
{
    int mode     = recipe->activation_checkpointing.mode;
    bool by_hand = rp__recipe_given(recipe, path) != NULL;

    if (!strncmp(path, "dataset_val.", 12)) return recipe->has_dataset_val;
    if (!strcmp(path, AC "mode"))
        return by_hand || (recipe->enable_activation_checkpointing == RP_SWITCH_UNSET && mode != RP_MODE_CONDITIONS);
    if (!strcmp(path, AC "every") || !strcmp(path, AC "offset")) return mode == RP_MODE_SELECTIVE_LAYER;
    if (!strcmp(path, AC "save")) return mode == RP_MODE_SELECTIVE_OP;
    if (!strcmp(path, AC "layers")) return by_hand || (mode != RP_MODE_NONE && mode != RP_MODE_CONDITIONS);
    if (!strcmp(path, AC "conditions") || !strcmp(path, AC "rules")) return by_hand;
    return true;
}

/* The map that holds the key's last part, made on the way; *name is that part. */
static rp_status open_parent(rp_yaml_doc *doc, rp_yaml_node *root, const char *path, rp_yaml_node **out, const char **name)
{
    const char *dot;

    for (*out = root; (dot = strchr(path, '.')); path = dot + 1) {
        char *part = rp__bump_text(&doc->bump, path, dot - path);
        if (!part) return RP_ERR_MEMORY;
        rp_yaml_node *child = rp__yaml_find(*out, part);
        if (!child) {
            child = rp__yaml_new(doc, RP_YAML_MAP, root->place);
            if (!child) return RP_ERR_MEMORY;
            child->key = part;
            rp__yaml_append(*out, child);
        }
        *out = child;
    }
    *name = path;
    return RP_OK;
}

static rp_status write_keys(const rp_recipe *recipe, rp_yaml_doc *doc, rp_yaml_node *root)
{
    for (int i = 0; i < rp__recipe_n_keys; i++) {
        const rp_recipe_key *key = &rp__recipe_keys[i];
        rp_yaml_node *parent, *value;
        const char *name;
        if (!is_written(recipe, key->path)) continue;
        RP_TRY(open_parent(doc, root, key->path, &parent, &name));
        RP_TRY(rp__recipe_value_write(recipe, key, doc, &value));
        value->key = name;
        rp__yaml_append(parent, value);
    }
    return RP_OK;
}

rp_status rp__recipe_write(const rp_recipe *recipe, rp_bump *bump, const char **out)
{
    rp_yaml_doc doc    = { .bump = { .ctx = bump->ctx } };
    rp_yaml_node *root = rp__yaml_new(&doc, RP_YAML_MAP, (rp_place){ "the resolved recipe", 0 });
    rp_status status   = root ? write_keys(recipe, &doc, root) : RP_ERR_MEMORY;

    if (status == RP_OK) status = rp__yaml_write(bump, root, out);
    rp__bump_free(&doc.bump);
    return status;
}

/* ---- the manual ---- */

typedef struct { rp_bump *bump; char *text; int64_t used, size; rp_status status; } page;

static void write_add(page *p, const char *fmt, ...) RP_PRINTF(2, 3);
static void write_add(page *p, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (p->used + n + 1 > p->size) {
        char *wider = rp__bump_alloc(p->bump, 2 * (p->used + n + 1));
        if (!wider) {
            p->status = RP_ERR_MEMORY;
            return;
        }
        if (p->used) memcpy(wider, p->text, (size_t)p->used);
        p->text = wider;
        p->size = 2 * (p->used + n + 1);
    }
    va_start(args, fmt);
    p->used += vsnprintf(p->text + p->used, (size_t)n + 1, fmt, args);
    va_end(args);
}

static const char page_head[] =
    "# The keys of a recipe\n"
    "\n"
    "Made from the table in src/recipe/schema.c by `reprise validate --keys`; a test compares the two.\n"
    "\n"
    "A recipe is YAML 1.1 or JSON. Every key can be set on the command line as KEY=VALUE, with dots into groups; `~KEY`\n"
    "removes one; `${other.key}` stands for another key's value (`$${` is a plain `${`). A key is typed by this table,\n"
    "not by YAML: `no` is a word where a word is wanted, `010` is ten, `1e-8` is a number. What stands in quotes is text.\n"
    "A key that is unknown, of the wrong type, out of range, set twice, or contradicts another is an error; all are told\n"
    "at once. `null` for a whole group is the same as leaving it out. Paths are relative to the working folder; libraries\n"
    "of plugins to the recipe.\n"
    "\n"
    "| key | value | default | |\n"
    "| --- | --- | --- | --- |\n";

static const char page_tail[] =
    "\n"
    "`dataset_val` is null unless it is given. One of `model.path` and `model.config` must be set.\n"
    "\n"
    "## Data\n"
    "\n"
    "[How to train on your own data](howto/data.md) has examples. `path` is one of\n"
    "\n"
    "- a file;\n"
    "- a folder: all files below it whose names end in `.txt .text .md` (`text`), `.jsonl .ndjson .json` (`jsonl`, `chat`, `alpaca`) or\n"
    "  `.bin .tokens .u16 .u32` (`tokens`), also with `.gz` or `.zst` behind;\n"
    "- a glob: `*`, `?` and `[...]` within a name, `**` for any number of folders;\n"
    "- a list of these, which keeps its order. The files of a folder or a glob come in the bytewise order of their paths.\n"
    "\n"
    "Names that begin with a dot are skipped. Links are followed.\n"
    "\n"
    "Files of all formats but `tokens` may be packed with gzip or zstd: their first bytes decide, not their names. Data may be\n"
    "larger than memory: tokens go to a temporary file. A file of `text` is one document, read by windows of 64 KiB and tokenised to\n"
    "the ids of the whole. Text that is not yet certain waits for more: as a rule the last word or line, and all of a text in which no\n"
    "word ends ([how much memory](memory.md)). Text is UTF-8. Other bytes are refused with the offset of the first one; UTF-16, PDF and\n"
    "binary files are refused by name. A byte-order mark is dropped.\n"
    "\n"
    "`jsonl`, `chat` and `alpaca` read JSON objects: one a line, or all of a file in one list, `[{...}, {...}]`. One object at a time is in\n"
    "memory.\n"
    "\n"
    "Every sample has a target. Those without one are skipped: a document whose prompt takes all of `max_seq_len`, an empty text or\n"
    "answer, a conversation without the role `assistant`, with `packed: true` a stretch of prompts alone. If none is left, `train` and\n"
    "`validate` end with exit 2 and name the first one's file, line and reason. The line `data` of a run counts files, documents,\n"
    "tokens, targets, samples, truncated documents and skipped ones. `validate` reads the data, too: up to 16 MiB of it, or all with\n"
    "`--data`; the files must be there either way, unless the model's are not there either. Of larger\n"
    "JSON data `validate` reads the first 16 objects of the first 16 files.\n"
    "\n"
    "Prompts with answers are `jsonl` with `prompt_column`, and `alpaca`: the columns `instruction`, `input` (optional) and `output`,\n"
    "where the prompt is the instruction and, after an empty line, the input. If the model has a chat template, it writes the two as\n"
    "a user's and an assistant's message, as for `chat`; the line `data` says so. Without a template, or with `use_chat_template:\n"
    "false`, a sample is `[bos] prompt answer [eos]`, the two tokenised apart, and the prompt of `alpaca` is the text of the Alpaca\n"
    "project. With `train_on_input: false` the answer and its end are targets, the rest is not.\n"
    "\n"
    "`chat` is a conversation an object, `{\"messages\": [{\"role\", \"content\"}, ...]}` or `{\"conversations\": [{\"from\", \"value\"}, ...]}`,\n"
    "`tools` beside it where there are any. It becomes what the model's own chat template makes of it, a Jinja program that stands\n"
    "beside the tokenizer or in the .gguf file (`tokenizer.chat_template` names another one); bos and eos are the template's to\n"
    "write, and its date is 2024-07-26 whatever the day. With `train_on_input: false` each answer of the assistant with its stop is\n"
    "a target, the rest is not; where the template writes earlier answers otherwise once others follow, each answer becomes a text\n"
    "of its own. A template that refuses a conversation ends the run before it begins, with the line of the data. So does one that takes\n"
    "more than 4,000,000 steps, 64 MiB or 1 s of the processor's time for a rendering. `reprise generate MODEL --chat --prompt TEXT` asks a\n"
    "model by the same template.\n"
    "\n"
    "With `packed: false` a document is a sample, cut at `max_seq_len` and padded to the longest of its batch; padding is no token,\n"
    "no target, and seen by none.\n"
    "\n"
    "## Logs\n"
    "\n"
    "`metrics.jsonl` has a line an optimizer step. `tensorboard: true` writes the same numbers, as fp32, to event files in\n"
    "`output_dir/tensorboard`, a file each time the run is started: `tensorboard --logdir output_dir` shows them under the keys of\n"
    "metrics.jsonl. A run that goes on voids what files before say of the steps that it makes again. `run_val_every_n_steps` puts\n"
    "`val_loss`, the mean over all targets of the whole batches of `dataset_val`, into both, into the report and beside the step on the terminal.\n"
    "\n"
    "`report.html` is written when a run ends or is interrupted: memory over the step, the arena, what becomes of every slot, by the\n"
    "plan that the run had, and its losses; of a run of more than 4,096 steps some. Nothing is planned again for it. The same page\n"
    "with the curve of budgets beside it, which takes a planner's time, is what `reprise view RUN_DIR` makes;\n"
    "`rp_trainer_report` writes it from C.\n"
    "\n"
    "## Conditions\n"
    "\n"
    "A condition is a map with one key. Asked about a module, it makes the module a region; as a field of a rule it\n"
    "filters slots.\n"
    "\n"
    "| condition | holds |\n"
    "| --- | --- |\n"
    "| `every_k_layers: {k, offset: 0}` | for block i when (i + 1 - offset) is a multiple of k |\n"
    "| `layers: {list: [0, 3, 7-9]}` | for these blocks |\n"
    "| `module_type: {types: [MLP]}` | for modules of a type: TransformerBlock, Attention, MLP, Norm, Linear, Embedding |\n"
    "| `path: {glob: \"*.mlp\"}` | where the glob matches the path; `*` is any run of characters, dots too |\n"
    "| `plugin: {library, symbol, args}` | when the function of a shared library says so |\n"
    "| `any: [...]`, `all: [...]`, `not: ...` | as the conditions inside say |\n"
    "\n"
    "The inner map may be left out: `path: \"*.mlp\"`, `module_type: MLP`, `layers: [0, 3]`, `every_k_layers: 4`.\n"
    "\n"
    "## Rules\n"
    "\n"
    "A rule is `{path, type, op, call, larger_than, cheaper_than_flops, every, plugin, fate}`: every field but `fate` is a\n"
    "condition, all must hold, and any condition above may stand there. `op` is a glob; `call` counts the calls under a\n"
    "path from 0; `larger_than` is a size; `every: k` or `every: {k, offset}` takes every k-th slot that the other fields\n"
    "leave. `fate` is `keep`, `recompute`, `offload`, `prefer_keep`, `prefer_recompute` or `prefer_offload`; `must_save`,\n"
    "`prefer_save`, `must_recompute` and `must_offload` are accepted. The first rule that matches wins.\n"
    "\n"
    "## Profile\n"
    "\n"
    "With `profile: true` two files appear in `output_dir` when the fourth step that this run makes is done, or the last one\n"
    "if it comes earlier: `profile.txt`, a table by op and pass (calls, seconds, share of the step, GFLOP/s and GB/s by what each\n"
    "op declares, page faults, the ledger's traffic), and `profile.trace.json`, which chrome://tracing and ui.perfetto.dev open:\n"
    "a span for each forward, replay and backward of an op with its path and shapes, each parameter's update, each batch read,\n"
    "each slot that goes away or comes back, and the ledger's live bytes. Profiled are the second to the fourth step, of a run of\n"
    "one step that one. It takes a few MiB of host memory outside the budget, whatever the run's length, and changes no bit.\n"
    "\n"
    "## Keys of other systems\n"
    "\n"
    "They are translated, and each translation is told. One of them beside the key it means is an error.\n"
    "\n"
    "| system | keys |\n"
    "| --- | --- |\n"
    "| Modalities | `ac_variant`, `layers_fqn`, `ac_fun_params.ac_freq`, `ac_fun_params.save_ops_keys`, "
    "`activation_checkpointing_modules` |\n"
    "| Megatron | `recompute_granularity`, `recompute_method`, `recompute_num_layers`, `recompute_modules` |\n"
    "| torchtune | `ac_mode`, `ac_option`, `ac_conditions`, `custom_sharded_layers`, `fsdp_reshard_after_forward`, "
    "`memory_efficient_wrapping` |\n";

rp_status rp__recipe_manual(rp_bump *bump, const char **out)
{
    char wants[RP_WANTS_CHARS];
    page p = { .bump = bump };

    write_add(&p, "%s", page_head);
    for (int i = 0; i < rp__recipe_n_keys; i++) {
        const rp_recipe_key *key = &rp__recipe_keys[i];
        write_add(&p, "| `%s` | %s | `%s` | %s |\n", key->path, rp__recipe_wants(key, wants), key->fallback, key->help);
    }
    write_add(&p, "%s", page_tail);
    *out = p.text;
    return p.status;
}

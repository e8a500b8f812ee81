/* recipe/write.c -- writes the resolved recipe as YAML, and the manual page of its keys. Both walk the table. */
#include "recipe/internal.h"

#include "base/bump.h"
#include "base/yaml.h"

#define AC "activation_checkpointing."

/* Keys that the mode would report as errors are omitted, so that the written recipe reads back. */
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

/* Finds or creates the map that holds the key's last part; *name is that part. */
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

static const char page_head[] =
    "# The keys of a recipe\n"
    "\n"
    "```yaml\n"
    "model: {path: models/smollm2.gguf}\n"
    "dataset: {path: data/corpus.txt}\n"
    "memory_budget: 1700MB\n"
    "```\n"
    "\n"
    "```sh\n"
    "reprise validate my_recipe.yaml                  # every error at once, with the nearest valid key\n"
    "reprise train my_recipe.yaml batch_size=4        # a key on the command line\n"
    "reprise validate --keys                          # this page\n"
    "```\n"
    "\n"
    "A recipe is a YAML 1.1 or JSON file. Every key can also be set on the command line as KEY=VALUE, with dots for groups; `~KEY`\n"
    "removes a key. `${other.key}` is replaced by the value of another key; write `$${` for a plain `${`. The table, not YAML,\n"
    "determines the type of a value: `no` is a word if a word is expected, `010` is ten, `1e-8` is a number. Text in quotes stays text.\n"
    "It is an error if a key is unknown, has the wrong type, is out of range, is set twice, or contradicts another key. The program\n"
    "reports all errors at once. `null` for a whole group has the same effect as leaving the group out. Paths are relative to the\n"
    "working folder; libraries of plug-ins are relative to the recipe.\n"
    "\n"
    "| key | value | default | |\n"
    "| --- | --- | --- | --- |\n";

static const char page_tail[] =
    "\n"
    "`dataset_val` is null unless it is set. One of `model.path` and `model.config` must be set.\n"
    "\n"
    "## Data\n"
    "\n"
    "[How to train on your own data](howto/data.md) has examples. `path` is one of\n"
    "\n"
    "- a file;\n"
    "- a folder: all files below it whose names end in `.txt .text .md` (`text`), `.jsonl .ndjson .json` (`jsonl`, `chat`, `alpaca`) or\n"
    "  `.bin .tokens .u16 .u32` (`tokens`), each optionally followed by `.gz` or `.zst`;\n"
    "- a glob: `*`, `?` and `[...]` within a name, `**` for any number of folders;\n"
    "- a list of these, in this order. The files of a folder or a glob are sorted by their paths, bytewise.\n"
    "\n"
    "Names that begin with a dot are skipped. Links are followed.\n"
    "\n"
    "Files of all formats except `tokens` may be compressed with gzip or zstd; the first bytes decide, not the name. Data may be larger\n"
    "than memory, because tokens are written to a temporary file. A file of format `text` is one document. It is read in windows of 64\n"
    "KiB, and its ids equal those of the whole text. Text whose ids may still change is held in memory ([how much](memory.md)). Usually\n"
    "this is the last word or line. In a text without word boundaries it is all of it. Text is UTF-8. Other bytes are an error with the\n"
    "offset of the first one; UTF-16, PDF and binary files are recognised and refused. A byte-order mark is dropped.\n"
    "\n"
    "`jsonl`, `chat` and `alpaca` read JSON objects: one per line, or a whole file as one list, `[{...}, {...}]`. One object at a time\n"
    "is in memory.\n"
    "\n"
    "Every sample has a target. Samples without one are skipped:\n"
    "\n"
    "- a document whose prompt fills all of `max_seq_len`\n"
    "- an empty text or answer\n"
    "- a conversation without the role `assistant`\n"
    "- with `packed: true`, a sample that contains only prompts\n"
    "\n"
    "If no sample is left, `train` and `validate` exit with code 2 and report the file, line and reason of the first skipped one. The\n"
    "line `data` of a run counts files, documents, tokens, targets, samples, truncated documents and skipped ones. `validate` also\n"
    "reads up to 16 MiB of the data, or all of it with `--data`. The files must exist in both cases, unless the model's files are\n"
    "missing, too. If JSON data is larger, `validate` reads the first 16 objects of the first 16 files.\n"
    "\n"
    "Prompts with answers are `jsonl` with `prompt_column`, and `alpaca`. `alpaca` has the columns `instruction`, `input` (optional)\n"
    "and `output`; its prompt is the instruction and, after an empty line, the input. If the model has a chat template, the template\n"
    "formats prompt and answer like `chat`, as messages of a user and an assistant. The line `data` reports this. Without a template,\n"
    "or with `use_chat_template: false`, a sample is `[bos] prompt answer [eos]`. Prompt and answer are then tokenised separately, and\n"
    "the prompt of `alpaca` is the text of the Alpaca project. With `train_on_input: false` only the answer and its end are targets.\n"
    "\n"
    "`chat` has one conversation per object, `{\"messages\": [{\"role\", \"content\"}, ...]}` or\n"
    "`{\"conversations\": [{\"from\", \"value\"}, ...]}`, optionally with `tools`. The model's own chat template formats it. This is a Jinja\n"
    "program that is stored next to the tokenizer or in the .gguf file; `tokenizer.chat_template` names another one. The template\n"
    "writes bos and eos. The date that it sees is always 2024-07-26. With `train_on_input: false` only the answers of the assistant and\n"
    "their stop tokens are targets. If the template changes earlier answers when others follow, each answer becomes a separate text. If\n"
    "a template refuses a conversation, the run ends before the first step. The error names the line of the data. The same happens if\n"
    "rendering a conversation takes more than 4,000,000 steps, 64 MiB or 1 s of CPU time. `reprise generate MODEL --chat --prompt TEXT`\n"
    "formats a prompt with the same template.\n"
    "\n"
    "With `packed: false` each document is a sample. It is cut at `max_seq_len` and padded to the longest sample of its batch. Padding\n"
    "is not counted as tokens, is never a target, and is masked in attention.\n"
    "\n"
    "## Logs\n"
    "\n"
    "`metrics.jsonl` has one line per optimizer step. `tensorboard: true` writes the same numbers, as fp32, to event files in\n"
    "`output_dir/tensorboard`, one file per start of the run. `tensorboard --logdir output_dir` shows them under the keys of\n"
    "metrics.jsonl. When a run is resumed, the entries of earlier files for repeated steps become invalid. `run_val_every_n_steps` adds\n"
    "`val_loss` to both, to the report and to the terminal. It is the mean over all targets of the complete batches of `dataset_val`.\n"
    "\n"
    "`report.html` is written when a run ends or is interrupted. It shows memory during the step, the arena, and the fate of every slot\n"
    "under the plan of the run. It also shows the losses, or a selection of them if the run has more than 4,096 steps. Nothing is\n"
    "planned again for it. `reprise view RUN_DIR` writes the same page with the curve of budgets, which needs a planner's time;\n"
    "`rp_trainer_report` writes it from C.\n"
    "\n"
    "## Conditions\n"
    "\n"
    "A condition is a map with one key. Under `conditions` it selects modules, which become regions. As a field of a rule it selects\n"
    "slots.\n"
    "\n"
    "| condition | holds |\n"
    "| --- | --- |\n"
    "| `every_k_layers: {k, offset: 0}` | for block i if (i + 1 - offset) is a multiple of k |\n"
    "| `layers: {list: [0, 3, 7-9]}` | for these blocks |\n"
    "| `module_type: {types: [MLP]}` | for modules of a type: TransformerBlock, Attention, MLP, Norm, Linear, Embedding |\n"
    "| `path: {glob: \"*.mlp\"}` | if the glob matches the path; `*` matches any characters, including dots |\n"
    "| `plugin: {library, symbol, args}` | if the function of a shared library returns true |\n"
    "| `any: [...]`, `all: [...]`, `not: ...` | if any or all of the conditions inside hold, or the one inside does not hold |\n"
    "\n"
    "The inner map may be left out: `path: \"*.mlp\"`, `module_type: MLP`, `layers: [0, 3]`, `every_k_layers: 4`.\n"
    "\n"
    "## Rules\n"
    "\n"
    "A rule is `{path, type, op, call, larger_than, cheaper_than_flops, every, plugin, fate}`. Every field except `fate` is a\n"
    "condition, and all of them must hold. Any condition above is allowed, too. `op` is a glob. `call` counts the calls under a path\n"
    "from 0. `larger_than` is a size. `every: k` or `every: {k, offset}` selects every k-th of the slots that match the other fields.\n"
    "`fate` is `keep`, `recompute`, `offload`, `prefer_keep`, `prefer_recompute` or `prefer_offload`; `must_save`, `prefer_save`,\n"
    "`must_recompute` and `must_offload` are accepted, too. The first rule that matches wins.\n"
    "\n"
    "## Profile\n"
    "\n"
    "With `profile: true` two files are written to `output_dir` after the fourth step of this run, or after its last step if it has\n"
    "fewer. `profile.txt` is a table by op and pass: calls, seconds, share of the step, page faults, and the ledger's traffic. GFLOP/s\n"
    "and GB/s follow from the work that each op declares. `profile.trace.json` opens in chrome://tracing and ui.perfetto.dev. It has\n"
    "the ledger's live bytes, and a span for\n"
    "\n"
    "- each forward, replay and backward of an op, with its path and shapes\n"
    "- each parameter update\n"
    "- each batch that is read\n"
    "- each slot that is offloaded or fetched\n"
    "\n"
    "The second to the fourth step are profiled; in a run of one step, that step. Profiling needs a few MiB of host memory outside the\n"
    "budget, independent of the length of the run, and changes no bit of the results.\n"
    "\n"
    "## Keys of other systems\n"
    "\n"
    "Recipes may use these keys of other systems. They are translated, and a note reports each translation. It is an error to set one\n"
    "of them together with the key that it means.\n"
    "\n"
    "| system | keys |\n"
    "| --- | --- |\n"
    "| Modalities | `ac_variant`, `layers_fqn`, `ac_fun_params.ac_freq`, `ac_fun_params.save_ops_keys`, `activation_checkpointing_modules` |\n"
    "| Megatron | `recompute_granularity`, `recompute_method`, `recompute_num_layers`, `recompute_modules` |\n"
    "| torchtune | `ac_mode`, `ac_option`, `ac_conditions`, `custom_sharded_layers`, `fsdp_reshard_after_forward`, `memory_efficient_wrapping` |\n"
    "\n"
    "This page is generated from the table in src/recipe/schema.c by `reprise validate --keys`; a test compares the two.\n";

rp_status rp__recipe_manual(rp_bump *bump, const char **out)
{
    char wants[RP_WANTS_CHARS];
    const char *page = page_head;

    for (int i = 0; i < rp__recipe_n_keys && page; i++) {
        const rp_recipe_key *key = &rp__recipe_keys[i];
        page = rp__bump_format(bump, "%s| `%s` | %s | `%s` | %s |\n", page, key->path, rp__recipe_wants(key, wants), key->fallback, key->help);
    }
    *out = page ? rp__bump_format(bump, "%s%s", page, page_tail) : NULL;
    return *out ? RP_OK : RP_ERR_MEMORY;
}

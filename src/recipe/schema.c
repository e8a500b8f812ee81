/* recipe/schema.c -- the table of keys: one line a key. Order is the order of a written recipe and of docs/recipe.md;
 * the keys of a group stand together. */
#include "recipe/internal.h"

#define AT(field) offsetof(rp_recipe, field)
#define MOST 9007199254740992.0             /* 2^53: whole numbers are exact in a double up to here */

#define DATASET(group, field)                                                                                             \
    { group ".path", KEY_FILES, AT(field.path), "null", .help = "a file, a folder, a glob (`**`: any folders), or a list of them" }, \
    { group ".format", KEY_WORD, AT(field.format), "text", "text jsonl tokens chat alpaca",                               \
      .help = "`text`: a file is a document; `jsonl`: a JSON object is; `tokens`: ids, little-endian, eos ends a document; " \
              "`chat`: a JSON object is a conversation; `alpaca`: one is instruction, input and output" },                \
    { group ".column", KEY_TEXT, AT(field.column), "text",                                                \
      .help = "jsonl: the field that holds the text; chat: the messages, where they are not `messages`" },                \
    { group ".packed", KEY_BOOL, AT(field.packed), "true",                                                                \
      .help = "documents are joined and cut into samples of max_seq_len; false: a document a sample, padded" },           \
    { group ".cross_documents", KEY_BOOL, AT(field.cross_documents), "false",                                             \
      .help = "packed: attention crosses the end of a document" },                                                        \
    { group ".token_type", KEY_WORD, AT(field.token_type), "u16", "u16 u32", .help = "tokens: how an id is stored" },     \
    { group ".prompt_column", KEY_TEXT, AT(field.prompt_column), "null", .flags = KEY_NULL,                               \
      .help = "jsonl: the field that holds the prompt before the text" },                                                 \
    { group ".use_chat_template", KEY_BOOL, AT(field.use_chat_template), "true", .flags = KEY_FREE,                       \
      .help = "prompts with answers (`prompt_column`, alpaca): the model's chat template writes them, if it has one" },   \
    { group ".train_on_input", KEY_BOOL, AT(field.train_on_input), "true",                                                \
      .help = "false: the prompt's tokens are no targets; chat: only what the assistant says is one" }

const rp_recipe_key rp__recipe_keys[] = {
    { "model.path", KEY_TEXT, AT(model.path), "null", .flags = KEY_NULL,
      .help = "a Hugging Face folder or a .gguf file; this or `config`" },
    { "model.config", KEY_TEXT, AT(model.config), "null", .flags = KEY_NULL,
      .help = "a config.json, or the name of one that is shipped: random weights drawn from `seed`; this or `path`" },
    { "model.stand_in", KEY_TEXT, AT(model.stand_in), "null", .flags = KEY_NULL | KEY_FREE,
      .help = "a config.json, or the name of one that is shipped: what `plan`, `explain` and `sweep` take while `path` is not there" },
    { "model.dropout", KEY_OPT_NUMBER, AT(model.dropout), "null", "null", 0, 1, KEY_BELOW,
      .help = "null: the values of the model's own config" },
    { "model.overrides", KEY_MAP, AT(model.overrides), "{}", .help = "keys of the model's config set to other values" },
    { "model.adapter", KEY_TEXT, AT(model.adapter), "null", .flags = KEY_NULL,
      .help = "a folder with an adapter that goes beside the model, as peft writes it" },
    { "freeze", KEY_TEXTS, AT(freeze), "[]",
      .help = "globs of modules or parameters that are not trained: no gradient, no optimizer state" },
    { "lora.rank", KEY_OPT_INT, AT(lora.rank), "null", "null", 1, 65536,
      .help = "train low-rank adapters beside linear layers; what `lora.whole` does not name is frozen" },
    { "lora.alpha", KEY_OPT_NUMBER, AT(lora.alpha), "null", "null", 0, 1e9,
      .help = "an adapter's share is scaled by alpha / rank; null: twice the rank" },
    { "lora.dropout", KEY_OPT_NUMBER, AT(lora.dropout), "null", "null", 0, 1, KEY_BELOW,
      .help = "of what adapters read; null: what those of files say, 0 for others" },
    { "lora.modules", KEY_TEXTS, AT(lora.modules), "[]",
      .help = "linear layers that get one: paths, ends of paths, globs; empty: attn.q and attn.v, or attn.qkv where they are one" },
    { "lora.whole", KEY_TEXTS, AT(lora.whole), "[]",
      .help = "globs of modules that are trained whole beside the adapters, and take none" },
    { "lora.rslora", KEY_BOOL, AT(lora.rslora), "false", .help = "scale by alpha / sqrt(rank) instead" },
    { "lora.dora", KEY_BOOL, AT(lora.dora), "false",
      .help = "DoRA: an adapter turns the rows of its layer's weight, whose magnitudes are trained apart" },
    { "lora.merge", KEY_BOOL, AT(lora.merge), "false", .flags = KEY_FREE,
      .help = "final/ is a whole model with the adapters added into its weights; else an adapter as peft reads it" },
    { "tokenizer.path", KEY_TEXT, AT(tokenizer.path), "null", .flags = KEY_NULL,
      .help = "null: beside the model; needed only where text is read or written" },
    { "tokenizer.chat_template", KEY_TEXT, AT(tokenizer.chat_template), "null", .flags = KEY_NULL,
      .help = "chat: a file with a template in place of the model's own" },
    DATASET("dataset", dataset),
    DATASET("dataset_val", dataset_val),
    { "run_val_every_n_steps", KEY_OPT_INT, AT(run_val_every_n_steps), "null", "null", 1, MOST,
      .flags = KEY_FREE, .help = "score dataset_val after every so many steps" },
    { "max_seq_len", KEY_INT, AT(max_seq_len), "512", NULL, 2, 16777216, .help = "tokens of a sample" },
    { "batch_size", KEY_INT, AT(batch_size), "2", NULL, 1, 1048576,
      .flags = KEY_SHARE, .help = "samples of a micro-batch, per rank" },
    { "gradient_accumulation_steps", KEY_INT, AT(gradient_accumulation_steps), "1", NULL, 1, 1048576,
      .flags = KEY_SHARE, .help = "micro-batches of an optimizer step" },
    { "epochs", KEY_INT, AT(epochs), "1", NULL, 1, MOST, .flags = KEY_FREE, .help = "passes over the data" },
    { "max_steps", KEY_OPT_INT, AT(max_steps), "null", "null", 1, MOST,
      .flags = KEY_FREE, .help = "optimizer steps; the run ends with these or with the epochs, whichever is first" },
    { "shuffle", KEY_BOOL, AT(shuffle), "true", .help = "a new order of samples each epoch" },
    { "seed", KEY_INT, AT(seed), "0", NULL, 0, MOST, .help = "of weights, order and dropout" },
    { "dtype", KEY_WORD, AT(dtype), "bf16", "bf16 fp32",
      .help = "parameters, activations and their gradients; sums inside an op are fp32" },
    { "grad_dtype", KEY_WORD, AT(grad_dtype), "null", "null fp32", .help = "fp32 widens the parameters' gradients" },
    { "optimizer.name", KEY_WORD, AT(optimizer.name), "adamw", "adamw sgd", .help = "the update rule" },
    { "optimizer.lr", KEY_NUMBER, AT(optimizer.lr), "2e-5", NULL, 0, 1e9, .help = "learning rate" },
    { "optimizer.betas", KEY_PAIR, AT(optimizer.betas), "[0.9, 0.95]", NULL, 0, 1, KEY_BELOW,
      .help = "adamw: decay of the moments" },
    { "optimizer.eps", KEY_NUMBER, AT(optimizer.eps), "1e-8", NULL, 0, 1e9, KEY_ABOVE,
      .help = "adamw: added to the denominator" },
    { "optimizer.momentum", KEY_NUMBER, AT(optimizer.momentum), "0", NULL, 0, 1, KEY_BELOW, .help = "sgd" },
    { "optimizer.weight_decay", KEY_NUMBER, AT(optimizer.weight_decay), "0", NULL, 0, 1e9,
      .help = "decoupled; on every parameter but `no_decay`" },
    { "optimizer.no_decay", KEY_TEXTS, AT(optimizer.no_decay), "[]",
      .help = "globs of modules or parameters that do not decay" },
    { "optimizer.state_dtype", KEY_WORD, AT(optimizer.state_dtype), "fp32", "fp32 bf16", .help = "of the moments" },
    { "optimizer.master_weights", KEY_BOOL, AT(optimizer.master_weights), "false",
      .help = "an fp32 copy of bf16 parameters" },
    { "optimizer.rounding", KEY_WORD, AT(optimizer.rounding), "nearest", "nearest stochastic",
      .help = "of bf16 parameters" },
    { "optimizer_in_bwd", KEY_WORD, AT(optimizer_in_bwd), "false", "false true auto",
      .flags = KEY_FREE,
      .help = "update in backward, so that gradients never all live at once; not with clipping or accumulation" },
    { "lr_scheduler.name", KEY_WORD, AT(lr_scheduler.name), "constant", "constant cosine linear",
      .help = "after the warmup" },
    { "lr_scheduler.num_warmup_steps", KEY_INT, AT(lr_scheduler.num_warmup_steps), "0", NULL, 0, MOST,
      .help = "linear, from 0" },
    { "clip_grad_norm", KEY_OPT_NUMBER, AT(clip_grad_norm), "null", "null", 0, 1e30, KEY_ABOVE,
      .help = "greatest norm of the whole gradient" },
    { "loss.num_output_chunks", KEY_OPT_INT, AT(loss.num_output_chunks), "auto", "auto", 1, 1048576,
      .help = "pieces the output head is computed in, each of as many classes; auto: fixed by rows and dtype" },
    { "loss.ignore_index", KEY_INT, AT(loss.ignore_index), "-100", NULL, -2147483648.0, 2147483647,
      .help = "a label that is no target" },
    { "loss.keep_logits", KEY_WORD, AT(loss.keep_logits), "false", "false true auto", .flags = KEY_FREE,
      .help = "keep them for backward, which else makes them again: faster, for a number a token and word of the vocabulary; auto: a plan decides" },
    { "loss.objective", KEY_WORD, AT(loss.objective), "null", "null causal masked",
      .help = "causal: the next token; masked: hidden tokens, by what is around them; null: that of the model: masked for an encoder" },
    { "loss.mask_probability", KEY_NUMBER, AT(loss.mask_probability), "0.15", NULL, 0, 1, KEY_ABOVE,
      .help = "masked: of a token to be a target; 8 of 10 are hidden behind [MASK], 1 is another token, 1 stays" },
    { "loss.mask_token_id", KEY_OPT_INT, AT(loss.mask_token_id), "null", "null", 0, 2147483647,
      .help = "masked: null: the tokenizer's [MASK]" },
    { "output_dir", KEY_TEXT, AT(output_dir), "runs/default",
      .flags = KEY_FREE, .help = "one that holds a run is refused unless `resume`" },
    { "save_every_n_steps", KEY_OPT_INT, AT(save_every_n_steps), "null", "null", 1, MOST,
      .flags = KEY_FREE, .help = "write a state to resume from" },
    { "keep_last_n", KEY_INT, AT(keep_last_n), "2", NULL, 1, MOST, .flags = KEY_FREE, .help = "states to keep" },
    { "resume", KEY_RESUME, AT(resume), "false",
      .flags = KEY_FREE, .help = "auto: the newest state in output_dir, if any; or the path of one" },
    { "log_every_n_steps", KEY_INT, AT(log_every_n_steps), "1", NULL, 1, MOST,
      .flags = KEY_FREE, .help = "steps between lines on the terminal" },
    { "threads", KEY_INT, AT(threads), "0", NULL, 0, 4096, .help = "0: all cores of this process" },
    { "tensorboard", KEY_BOOL, AT(tensorboard), "false", .flags = KEY_FREE,
      .help = "the numbers of metrics.jsonl as event files, too, in output_dir/tensorboard" },
    { "profile", KEY_BOOL, AT(profile), "false", .flags = KEY_FREE,
      .help = "a Chrome trace and a table by op in output_dir, of steps 2 to 4 of the run" },
    { "plan", KEY_TEXT, AT(plan), "null", .flags = KEY_NULL | KEY_FREE, .help = "a plan file to replay" },
    { "memory_budget", KEY_BUDGET, AT(memory_budget), "null", .flags = KEY_FREE,
      .help = "per rank: weights, gradients, optimizer, slots, scratch, communication" },
    { "memory_limit", KEY_BUDGET, AT(memory_limit), "null", .flags = KEY_FREE,
      .help = "per rank, of the whole process: the budget is this less a fixed allowance for the program itself, which `reprise plan` prints" },
    { "enable_activation_checkpointing", KEY_WORD, AT(enable_activation_checkpointing), "null", "null true false",
      .flags = KEY_FREE, .help = "the plain switch; true is mode full: every block" },
    { "activation_checkpointing.mode", KEY_WORD, AT(activation_checkpointing.mode), "none",
      "none full selective_layer selective_op auto",
      .flags = KEY_FREE, .help = "auto, the default when memory_budget or memory_limit is set: the planner" },
    { "activation_checkpointing.layers", KEY_TEXT, AT(activation_checkpointing.layers), "layers",
      .flags = KEY_FREE,
      .help = "path of the list of blocks" },
    { "activation_checkpointing.every", KEY_INT, AT(activation_checkpointing.every), "1", NULL, 1, 1048576,
      .flags = KEY_FREE, .help = "selective_layer: block i (from 0) when (i + 1 - offset) is a multiple of `every`" },
    { "activation_checkpointing.offset", KEY_INT, AT(activation_checkpointing.offset), "0", NULL, 0, 1048576,
      .flags = KEY_FREE, .help = "see `every`" },
    { "activation_checkpointing.save", KEY_TEXTS, AT(activation_checkpointing.save), RP_MODE_SAVE,
      .flags = KEY_FREE, .help = "selective_op: ops whose results are kept, all else in a block is recomputed; matmul includes the layers of experts" },
    { "activation_checkpointing.conditions", KEY_CONDITIONS, AT(activation_checkpointing.condition), "[]",
      .flags = KEY_FREE,
      .help = "which modules become regions: a module does when any condition holds" },
    { "activation_checkpointing.rules", KEY_RULES, AT(activation_checkpointing.rule), "[]", .flags = KEY_FREE,
      .help = "which slots meet which fate; the first match wins" },
    { "activation_checkpointing.offload.to", KEY_WORD, AT(activation_checkpointing.offload.to), "disk", "disk memory",
      .flags = KEY_FREE, .help = "memory needs a second device" },
    { "activation_checkpointing.offload.path", KEY_TEXT, AT(activation_checkpointing.offload.path), "offload/",
      .flags = KEY_FREE,
      .help = "folder of offloaded slots, and of states (`dist.state_offload`)" },
    { "activation_checkpointing.verify", KEY_WORD, AT(activation_checkpointing.verify), "never", "never step always",
      .flags = KEY_FREE,
      .help = "hash what a replay produces against the first pass; step: one region a step, in turn" },
    { "dist.ranks", KEY_OPT_INT, AT(dist.ranks), "null", "null", 1, 1048576,
      .flags = KEY_SHARE, .help = "null: the MPI world's, 1 without MPI" },
    { "dist.reshard_after_forward", KEY_RESHARD, AT(dist.reshard_after_forward), "true", .flags = KEY_SHARE,
      .help = "free gathered weights after forward; N: keep them within groups of N ranks" },
    { "dist.prefetch", KEY_INT, AT(dist.prefetch), "1", NULL, 0, 1024, KEY_SHARE,
      .help = "blocks whose weights are gathered ahead of their use, in a buffer as large as they are" },
    { "dist.reduce_behind", KEY_INT, AT(dist.reduce_behind), "0", NULL, 0, 1024, KEY_SHARE,
      .help = "blocks whose gradients are summed over ranks while those before them run backward, in a buffer of twice their size" },
    { "dist.replicate_dim", KEY_INT, AT(dist.replicate_dim), "1", NULL, 1, 1048576, KEY_SHARE,
      .help = "groups of ranks that hold whole copies" },
    { "dist.custom_sharded_layers", KEY_TEXTS, AT(dist.custom_sharded_layers), "[]",
      .flags = KEY_SHARE,
      .help = "modules that are shard units of their own, beside them" },
    { "dist.modules_to_wrap", KEY_TYPES, AT(dist.modules_to_wrap), "[]", .flags = KEY_SHARE,
      .help = "modules that are shard units in place of every block" },
    { "dist.sync_each_batch", KEY_BOOL, AT(dist.sync_each_batch), "true", .flags = KEY_SHARE,
      .help = "sum gradients over ranks in every micro-batch; false: once a step, and until then each rank holds them whole" },
    { "dist.timeout", KEY_DURATION, AT(dist.timeout), "10min", NULL, 1, 2592000, KEY_FREE | KEY_SHARE,
      .help = "the longest that a rank waits for another: `90s`, `10min`, `2h`; then it ends with exit code 1" },
    { "dist.state_offload", KEY_BOOL, AT(dist.state_offload), "false", .flags = KEY_FREE,
      .help = "optimizer states and masters live on disk between steps, in the folder of offloaded slots; with one rank, too" },
};
const int rp__recipe_n_keys = RP_COUNT(rp__recipe_keys);
_Static_assert(RP_COUNT(rp__recipe_keys) <= RP_RECIPE_MAX_KEYS, "raise RP_RECIPE_MAX_KEYS");

int rp__recipe_find_key(const char *path)
{
    for (int i = 0; i < rp__recipe_n_keys; i++)
        if (!strcmp(rp__recipe_keys[i].path, path)) return i;
    return -1;
}

bool rp__recipe_is_group(const char *path)
{
    size_t n = strlen(path);

    for (int i = 0; i < rp__recipe_n_keys; i++)
        if (!strncmp(rp__recipe_keys[i].path, path, n) && rp__recipe_keys[i].path[n] == '.') return true;
    return false;
}

static size_t parent_chars(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? (size_t)(dot - path) + 1 : 0;
}

const char *rp__recipe_nearest_key(const char *path, char out[RP_KEY_CHARS])
{
    char name[RP_RECIPE_MAX_KEYS][RP_KEY_CHARS];
    const char *list[RP_RECIPE_MAX_KEYS + 1];
    size_t parent = parent_chars(path);
    int n         = 0;

    for (int i = 0; i < rp__recipe_n_keys; i++) {
        const char *key = rp__recipe_keys[i].path;
        if (!strcmp(key + parent_chars(key), path + parent)) return key;
        if (strncmp(key, path, parent)) continue;
        snprintf(name[n], RP_KEY_CHARS, "%.*s", (int)strcspn(key + parent, "."), key + parent);
        list[n] = name[n];
        if (!n || strcmp(name[n], name[n - 1])) n++;
    }
    list[n]           = NULL;
    const char *found = rp__nearest(path + parent, list);
    if (!found) return NULL;
    snprintf(out, RP_KEY_CHARS, "%.*s%s", (int)parent, path, found);
    return out;
}

/* recipe/schema.c -- the table of keys, one entry per key. A written recipe and docs/recipe.md follow its order. The keys of a group must be
 * adjacent. */
#include "recipe/internal.h"

#define AT(field) offsetof(rp_recipe, field)
#define MOST 9007199254740992.0             /* 2^53: a double represents all whole numbers up to here */

#define DATASET(group, field)                                                                                                                        \
    { group ".path", KEY_FILES, AT(field.path), "null", .help = "a file, a folder, a glob (`**`: any number of folders), or a list of these" },      \
    { group ".format", KEY_WORD, AT(field.format), "text", "text jsonl tokens chat alpaca",                                                          \
      .help = "`text`: one document per file; `jsonl`: one JSON object per document; `tokens`: little-endian ids, eos ends a document; "             \
              "`chat`: one JSON object per conversation; `alpaca`: one JSON object with instruction, input and output" },                            \
    { group ".column", KEY_TEXT, AT(field.column), "text",                                                                                           \
      .help = "jsonl: name of the field with the text; chat: name of the field with the messages, if it is not `messages`" },                        \
    { group ".packed", KEY_BOOL, AT(field.packed), "true",                                                                                           \
      .help = "join documents and cut them into samples of max_seq_len tokens; false: one document per sample, padded" },                            \
    { group ".cross_documents", KEY_BOOL, AT(field.cross_documents), "false",                                                                        \
      .help = "packed: let attention cross the end of a document" },                                                                                 \
    { group ".token_type", KEY_WORD, AT(field.token_type), "u16", "u16 u32", .help = "tokens: integer type of an id" },                              \
    { group ".prompt_column", KEY_TEXT, AT(field.prompt_column), "null", .flags = KEY_NULL,                                                          \
      .help = "jsonl: name of the field with the prompt, which precedes the text" },                                                                 \
    { group ".use_chat_template", KEY_BOOL, AT(field.use_chat_template), "true", .flags = KEY_FREE,                                                  \
      .help = "prompts with answers (`prompt_column`, alpaca): format them with the model's chat template, if it has one" },                         \
    { group ".train_on_input", KEY_BOOL, AT(field.train_on_input), "true",                                                                           \
      .help = "also train on prompts; false: only on answers (chat: on the messages of the assistant)" }

const rp_recipe_key rp__recipe_keys[] = {
    { "model.path", KEY_TEXT, AT(model.path), "null", .flags = KEY_NULL,
      .help = "a Hugging Face folder or a .gguf file; set this or `config`" },
    { "model.config", KEY_TEXT, AT(model.config), "null", .flags = KEY_NULL,
      .help = "a config.json, or the name of a shipped one: random weights, drawn with `seed`; set this or `path`" },
    { "model.stand_in", KEY_TEXT, AT(model.stand_in), "null", .flags = KEY_NULL | KEY_FREE,
      .help = "a config.json (`reprise inspect MODEL --config`), or the name of a shipped one, that `plan`, `explain` and `sweep` use if `path` does not "
              "exist" },
    { "model.dropout", KEY_OPT_NUMBER, AT(model.dropout), "null", "null", 0, 1, KEY_BELOW,
      .help = "dropout probability; null: the values of the model's config" },
    { "model.overrides", KEY_MAP, AT(model.overrides), "{}", .help = "values that replace keys of the model's config" },
    { "model.quantize", KEY_WORD, AT(model.quantize), "null", "null keep nf4 q8_0 q4_0",
      .help = "how frozen matrices are stored; keep: quantised as in the files; nf4, q8_0, q4_0: quantised while they are read; null: as `dtype`" },
    { "model.mapped", KEY_BOOL, AT(model.mapped), "false", .flags = KEY_FREE,
      .help = "frozen weights stay in the pages of their files if these have them as the run stores them; others are loaded" },
    { "model.adapter", KEY_TEXT, AT(model.adapter), "null", .flags = KEY_NULL,
      .help = "a folder with a low-rank adapter of the model, in the format of peft" },
    { "freeze", KEY_TEXTS, AT(freeze), "[]",
      .help = "globs of modules or parameters that are not trained; they have no gradient and no optimizer state" },
    { "lora.rank", KEY_OPT_INT, AT(lora.rank), "null", "null", 1, 65536,
      .help = "rank of new low-rank adapters for linear layers; all other weights are frozen unless `lora.whole` names them; null: no new adapters" },
    { "lora.alpha", KEY_OPT_NUMBER, AT(lora.alpha), "null", "null", 0, 1e9,
      .help = "the output of an adapter is scaled by alpha / rank; null: twice the rank" },
    { "lora.dropout", KEY_OPT_NUMBER, AT(lora.dropout), "null", "null", 0, 1, KEY_BELOW,
      .help = "dropout of the adapters' inputs; null: the value in the adapter's files, or 0 for new adapters" },
    { "lora.modules", KEY_TEXTS, AT(lora.modules), "[]",
      .help = "linear layers that get an adapter: paths, ends of paths, globs; empty: attn.q and attn.v, or attn.qkv in models that combine them" },
    { "lora.whole", KEY_TEXTS, AT(lora.whole), "[]",
      .help = "globs of modules that are trained in full and get no adapter" },
    { "lora.rslora", KEY_BOOL, AT(lora.rslora), "false", .help = "scale by alpha / sqrt(rank) instead of alpha / rank" },
    { "lora.dora", KEY_BOOL, AT(lora.dora), "false",
      .help = "DoRA: the adapter changes the direction of each row of the layer's weight; the magnitudes of the rows are trained separately" },
    { "lora.merge", KEY_BOOL, AT(lora.merge), "false", .flags = KEY_FREE,
      .help = "final/ is the whole model with the adapters added to its weights; false: final/ is the adapter, in the format of peft" },
    { "tokenizer.path", KEY_TEXT, AT(tokenizer.path), "null", .flags = KEY_NULL,
      .help = "null: next to the model; needed only if text is read or written" },
    { "tokenizer.chat_template", KEY_TEXT, AT(tokenizer.chat_template), "null", .flags = KEY_NULL,
      .help = "chat: a file with a template that replaces the model's own" },
    DATASET("dataset", dataset),
    DATASET("dataset_val", dataset_val),
    { "run_val_every_n_steps", KEY_OPT_INT, AT(run_val_every_n_steps), "null", "null", 1, MOST,
      .flags = KEY_FREE, .help = "steps between two evaluations on dataset_val" },
    { "sample_prompts", KEY_TEXTS, AT(sample_prompts), "[]", .flags = KEY_FREE,
      .help = "prompts that the model continues during the run; with a chat dataset, messages that it answers" },
    { "sample_every", KEY_OPT_INT, AT(sample_every), "null", "null", 1, MOST, .flags = KEY_FREE,
      .help = "steps between two continuations of `sample_prompts`" },
    { "sample_tokens", KEY_INT, AT(sample_tokens), "32", NULL, 1, 65536, .flags = KEY_FREE,
      .help = "most tokens of a continuation, each the likeliest one; prompt and continuation have at most `max_seq_len` tokens" },
    { "keep_best", KEY_WORD, AT(keep_best), "null", "null val_loss", .flags = KEY_FREE,
      .help = "val_loss: write the weights of the lowest validation loss to best/ in output_dir, like final/" },
    { "early_stopping.patience", KEY_OPT_INT, AT(early_stopping.patience), "null", "null", 1, MOST, .flags = KEY_FREE,
      .help = "end the run after this many validations in a row without a lower loss; null: never" },
    { "early_stopping.min_delta", KEY_NUMBER, AT(early_stopping.min_delta), "0", NULL, 0, 1e30, .flags = KEY_FREE,
      .help = "a validation loss counts as lower only if it is lower by more than this" },
    { "max_seq_len", KEY_INT, AT(max_seq_len), "512", NULL, 2, 16777216, .help = "tokens per sample" },
    { "batch_size", KEY_INT, AT(batch_size), "2", NULL, 1, 1048576,
      .flags = KEY_SHARE, .help = "samples per micro-batch and rank" },
    { "gradient_accumulation_steps", KEY_INT, AT(gradient_accumulation_steps), "1", NULL, 1, 1048576,
      .flags = KEY_SHARE, .help = "micro-batches per optimizer step" },
    { "epochs", KEY_INT, AT(epochs), "1", NULL, 1, MOST, .flags = KEY_FREE, .help = "passes over the data" },
    { "max_steps", KEY_OPT_INT, AT(max_steps), "null", "null", 1, MOST,
      .flags = KEY_FREE, .help = "optimizer steps; the run ends after these or after `epochs`, whichever comes first" },
    { "shuffle", KEY_BOOL, AT(shuffle), "true", .help = "draw a new order of samples in each epoch" },
    { "seed", KEY_INT, AT(seed), "0", NULL, 0, MOST, .help = "seed for weight initialisation, shuffling and dropout" },
    { "dtype", KEY_WORD, AT(dtype), "bf16", "bf16 fp32",
      .help = "data type of parameters, activations and their gradients; sums inside an op are fp32" },
    { "grad_dtype", KEY_WORD, AT(grad_dtype), "null", "null fp32", .help = "fp32: parameter gradients are fp32; null: as `dtype`" },
    { "optimizer.name", KEY_WORD, AT(optimizer.name), "adamw", "adamw sgd", .help = "update rule" },
    { "optimizer.lr", KEY_NUMBER, AT(optimizer.lr), "2e-5", NULL, 0, 1e9, .help = "learning rate" },
    { "optimizer.betas", KEY_PAIR, AT(optimizer.betas), "[0.9, 0.95]", NULL, 0, 1, KEY_BELOW,
      .help = "adamw: decay rates of the two moments" },
    { "optimizer.eps", KEY_NUMBER, AT(optimizer.eps), "1e-8", NULL, 0, 1e9, KEY_ABOVE,
      .help = "adamw: added to the denominator" },
    { "optimizer.momentum", KEY_NUMBER, AT(optimizer.momentum), "0", NULL, 0, 1, KEY_BELOW, .help = "sgd: momentum" },
    { "optimizer.weight_decay", KEY_NUMBER, AT(optimizer.weight_decay), "0", NULL, 0, 1e9,
      .help = "decoupled weight decay of all parameters except `no_decay`" },
    { "optimizer.no_decay", KEY_TEXTS, AT(optimizer.no_decay), "[]",
      .help = "globs of modules or parameters without weight decay" },
    { "optimizer.state_dtype", KEY_WORD, AT(optimizer.state_dtype), "fp32", "fp32 bf16 int8", 
      .help = "data type of the moments; int8: codes of 8 bits, and a scale for each 256 elements" },
    { "optimizer.master_weights", KEY_BOOL, AT(optimizer.master_weights), "false",
      .help = "keep an fp32 copy of bf16 parameters and update it" },
    { "optimizer.rounding", KEY_WORD, AT(optimizer.rounding), "nearest", "nearest stochastic",
      .help = "rounding of updated bf16 parameters" },
    { "optimizer_in_bwd", KEY_WORD, AT(optimizer_in_bwd), "false", "false true auto",
      .flags = KEY_FREE,
      .help = "update parameters during backward, so that not all gradients exist at once; excludes clipping and accumulation; auto: a plan decides" },
    { "lr_scheduler.name", KEY_WORD, AT(lr_scheduler.name), "constant", "constant cosine linear",
      .help = "schedule of the learning rate after the warmup" },
    { "lr_scheduler.num_warmup_steps", KEY_INT, AT(lr_scheduler.num_warmup_steps), "0", NULL, 0, MOST,
      .help = "steps of linear warmup from 0" },
    { "clip_grad_norm", KEY_OPT_NUMBER, AT(clip_grad_norm), "null", "null", 0, 1e30, KEY_ABOVE,
      .help = "maximum norm of the whole gradient; null: no clipping" },
    { "loss.num_output_chunks", KEY_OPT_INT, AT(loss.num_output_chunks), "auto", "auto", 1, 1048576,
      .help = "number of pieces into which the output head splits the vocabulary; auto: determined by rows, dtype and device" },
    { "loss.ignore_index", KEY_INT, AT(loss.ignore_index), "-100", NULL, -2147483648.0, 2147483647,
      .help = "label of tokens that are not targets" },
    { "loss.keep_logits", KEY_WORD, AT(loss.keep_logits), "false", "false true auto", .flags = KEY_FREE,
      .help = "keep the logits for backward instead of recomputing them: faster, for one number per token and vocabulary entry; auto: a plan decides" },
    { "loss.objective", KEY_WORD, AT(loss.objective), "null", "null causal masked",
      .help = "causal: predict the next token; masked: predict masked tokens from their context; null: masked for an encoder, otherwise causal" },
    { "loss.mask_probability", KEY_NUMBER, AT(loss.mask_probability), "0.15", NULL, 0, 1, KEY_ABOVE,
      .help = "masked: probability that a token is a target; 8 of 10 targets become [MASK], 1 becomes another token, 1 stays unchanged" },
    { "loss.mask_token_id", KEY_OPT_INT, AT(loss.mask_token_id), "null", "null", 0, 2147483647,
      .help = "masked: id of the mask token; null: the tokenizer's [MASK]" },
    { "output_dir", KEY_TEXT, AT(output_dir), "runs/default",
      .flags = KEY_FREE, .help = "folder of the run; a folder that contains a run is refused unless `resume` is set" },
    { "final_format", KEY_WORD, AT(final_format), "safetensors", "safetensors gguf",
      .flags = KEY_FREE, .help = "of the trained model. gguf: also write final.gguf for llama.cpp, with the adapter merged in" },
    { "save_every_n_steps", KEY_OPT_INT, AT(save_every_n_steps), "null", "null", 1, MOST,
      .flags = KEY_FREE, .help = "steps between two saved states from which a run can resume" },
    { "keep_last_n", KEY_INT, AT(keep_last_n), "2", NULL, 1, MOST, .flags = KEY_FREE, .help = "number of states to keep" },
    { "resume", KEY_RESUME, AT(resume), "false",
      .flags = KEY_FREE, .help = "auto: resume from the newest state in output_dir, if there is one; or the path of a state" },
    { "log_every_n_steps", KEY_INT, AT(log_every_n_steps), "1", NULL, 1, MOST,
      .flags = KEY_FREE, .help = "steps between two lines on the terminal" },
    { "device", KEY_WORD, AT(device), "cpu", "cpu sim emu cuda",
      .help = "where to compute: cuda is an NVIDIA GPU, emu the same kernels on an emulated GPU, sim references in double; --device only predicts" },
    { "threads", KEY_INT, AT(threads), "0", NULL, 0, 4096, .help = "0: all cores of this process" },
    { "tensorboard", KEY_BOOL, AT(tensorboard), "false", .flags = KEY_FREE,
      .help = "also write the numbers of metrics.jsonl as event files, to output_dir/tensorboard" },
    { "profile", KEY_BOOL, AT(profile), "false", .flags = KEY_FREE,
      .help = "write a Chrome trace and a table by op to output_dir, for steps 2 to 4 of the run" },
    { "plan", KEY_TEXT, AT(plan), "null", .flags = KEY_NULL | KEY_FREE, .help = "a plan file to follow" },
    { "memory_budget", KEY_BUDGET, AT(memory_budget), "null", .flags = KEY_FREE,
      .help = "limit per rank for weights, gradients, optimizer states, slots, scratch and communication; auto: the available memory less 64 MiB "
              "and less the bytes of mapped weights" },
    { "memory_limit", KEY_BUDGET, AT(memory_limit), "null", .flags = KEY_FREE,
      .help = "limit per rank for the whole process; the budget is this less a fixed allowance for the program itself, which `reprise plan` prints" },
    { "enable_activation_checkpointing", KEY_WORD, AT(enable_activation_checkpointing), "null", "null true false",
      .flags = KEY_FREE, .help = "simple switch: true means mode full (every block), false means mode none" },
    { "activation_checkpointing.mode", KEY_WORD, AT(activation_checkpointing.mode), "none",
      "none full selective_layer selective_op auto",
      .flags = KEY_FREE, .help = "auto: the planner decides; it is the default if memory_budget or memory_limit is set" },
    { "activation_checkpointing.layers", KEY_TEXT, AT(activation_checkpointing.layers), "layers",
      .flags = KEY_FREE,
      .help = "path of the list of blocks" },
    { "activation_checkpointing.every", KEY_INT, AT(activation_checkpointing.every), "1", NULL, 1, 1048576,
      .flags = KEY_FREE, .help = "selective_layer: checkpoint block i (from 0) if (i + 1 - offset) is a multiple of `every`" },
    { "activation_checkpointing.offset", KEY_INT, AT(activation_checkpointing.offset), "0", NULL, 0, 1048576,
      .flags = KEY_FREE, .help = "see `every`" },
    { "activation_checkpointing.save", KEY_TEXTS, AT(activation_checkpointing.save), RP_MODE_SAVE,
      .flags = KEY_FREE,
      .help = "selective_op: ops whose results are kept; everything else in a block is recomputed; matmul includes the products of experts" },
    { "activation_checkpointing.conditions", KEY_CONDITIONS, AT(activation_checkpointing.condition), "[]",
      .flags = KEY_FREE,
      .help = "modules that become regions: those for which any condition holds" },
    { "activation_checkpointing.rules", KEY_RULES, AT(activation_checkpointing.rule), "[]", .flags = KEY_FREE,
      .help = "fates of slots; the first rule that matches a slot decides" },
    { "activation_checkpointing.offload.to", KEY_WORD, AT(activation_checkpointing.offload.to), "disk", "disk memory",
      .flags = KEY_FREE, .help = "where slots are offloaded to; memory is the host's, with a GPU as `device`" },
    { "activation_checkpointing.offload.path", KEY_TEXT, AT(activation_checkpointing.offload.path), "offload/",
      .flags = KEY_FREE,
      .help = "folder for offloaded slots, and for optimizer states with `dist.state_offload`" },
    { "activation_checkpointing.verify", KEY_WORD, AT(activation_checkpointing.verify), "never", "never step always",
      .flags = KEY_FREE,
      .help = "compare hashes of recomputed values with those of the forward; step: one region per step, in turn" },
    { "dist.ranks", KEY_OPT_INT, AT(dist.ranks), "null", "null", 1, 1048576,
      .flags = KEY_SHARE, .help = "null: as many as MPI has started, or 1 without MPI" },
    { "dist.reshard_after_forward", KEY_RESHARD, AT(dist.reshard_after_forward), "true", .flags = KEY_SHARE,
      .help = "free gathered weights after the forward; N: keep them within groups of N ranks" },
    { "dist.prefetch", KEY_INT, AT(dist.prefetch), "1", NULL, 0, 1024, KEY_SHARE,
      .help = "number of blocks whose weights are prefetched: gathered while other ops compute, into a buffer as large as these weights" },
    { "dist.reduce_behind", KEY_INT, AT(dist.reduce_behind), "0", NULL, 0, 1024, KEY_SHARE,
      .help = "number of blocks whose gradients are summed over ranks while the next blocks run backward, in a buffer of twice their size" },
    { "dist.replicate_dim", KEY_INT, AT(dist.replicate_dim), "1", NULL, 1, 1048576, KEY_SHARE,
      .help = "number of groups of ranks; each group holds a whole copy of the weights" },
    { "dist.custom_sharded_layers", KEY_TEXTS, AT(dist.custom_sharded_layers), "[]",
      .flags = KEY_SHARE,
      .help = "modules that are shard units in addition to the blocks" },
    { "dist.modules_to_wrap", KEY_TYPES, AT(dist.modules_to_wrap), "[]", .flags = KEY_SHARE,
      .help = "modules that are shard units instead of the blocks" },
    { "dist.sync_each_batch", KEY_BOOL, AT(dist.sync_each_batch), "true", .flags = KEY_SHARE,
      .help = "sum gradients over ranks in every micro-batch; false: once per step, and each rank holds whole gradients until then" },
    { "dist.timeout", KEY_DURATION, AT(dist.timeout), "10min", NULL, 1, 2592000, KEY_FREE | KEY_SHARE,
      .help = "longest time that a rank waits for another, such as `90s`, `10min` or `2h`; then it ends with exit code 1" },
    { "dist.state_offload", KEY_BOOL, AT(dist.state_offload), "false", .flags = KEY_FREE,
      .help = "keep optimizer states and master weights on disk between steps, in the folder of offloaded slots; works with one rank, too" },
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

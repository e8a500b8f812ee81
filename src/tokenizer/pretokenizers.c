/* tokenizer/pretokenizers.c -- reads the pre-tokenizers of a tokenizer.json into the stages of pretokenize.c. */
#include "text/bytes.h"
#include "tokenizer/reader.h"

#include <string.h>

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Appends a stage before filling it, so that rp__pretokenizer_free also frees an incomplete one. */
static rp_status pretokenizers_add(rp_reader *r, rp_stage stage, rp_stage **out)
{
    rp_pretokenizer *pre = &r->t->pre;

    stage.maps_bytes = r->byte_level && !r->maps_early;
    r->maps_early    = r->byte_level;
    RP_READ_CHECK(r, RP_ERR_UNSUPPORTED, pre->n_stages < RP_MAX_STAGES, "more than %d pre-tokenizers are not supported",
                  r->name, RP_MAX_STAGES);
    pre->stage[pre->n_stages] = stage;
    if (out) *out = &pre->stage[pre->n_stages];
    pre->n_stages++;
    return RP_OK;
}

static rp_status read_behaviour(rp_reader *r, const json_t *part, const char *missing, rp_split *out)
{
    static const char *const names[] = { [RP_SPLIT_REMOVED] = "Removed", [RP_SPLIT_ISOLATED] = "Isolated",
        [RP_SPLIT_WITH_PREVIOUS] = "MergedWithPrevious", [RP_SPLIT_WITH_NEXT] = "MergedWithNext",
        [RP_SPLIT_CONTIGUOUS] = "Contiguous" };
    const char *name = json_string_value(json_object_get(part, "behavior"));

    if (!name) name = missing;
    for (int i = 0; i < RP_COUNT(names); i++)
        if (!strcmp(name, names[i])) return *out = (rp_split)i, RP_OK;
    return rp_fail(r->ctx, RP_ERR_UNSUPPORTED, "cannot read '%s': a %.80s that is '%.80s' is not supported", r->name,
                   rp__part_kind(part), name);
}

static rp_status read_split(rp_reader *r, json_t *part)
{
    rp_stage *stage = NULL;

    RP_TRY(pretokenizers_add(r, (rp_stage){ .invert = rp__part_flag(part, "invert", false) }, &stage));
    RP_TRY(rp__part_pattern(r, part, &stage->pattern));
    return read_behaviour(r, part, "without a behavior", &stage->behaviour);
}

static rp_status read_delimiter(rp_reader *r, json_t *part)
{
    rp_bytes text = { 0 };
    rp_stage *stage = NULL;

    RP_TRY(pretokenizers_add(r, (rp_stage){ .behaviour = RP_SPLIT_REMOVED }, &stage));
    rp_status status = rp__part_text(r, part, "delimiter", &text);
    if (status == RP_OK) status = rp__pattern_new(r->ctx, text.at, text.n, RP_PATTERN_LITERAL, &stage->pattern);
    rp__release(text.at);
    return status;
}

static rp_status read_digits(rp_reader *r, json_t *part)
{
    bool each = rp__part_flag(part, "individual_digits", false);
    rp_stage *stage = NULL;

    RP_TRY(pretokenizers_add(r, (rp_stage){ .behaviour = each ? RP_SPLIT_ISOLATED : RP_SPLIT_CONTIGUOUS }, &stage));
    return rp__pattern_new(r->ctx, "\\p{N}", 5, RP_PATTERN_DIGITS, &stage->pattern);
}

static rp_status read_whitespace_split(rp_reader *r, json_t *part)
{
    (void)part;
    return pretokenizers_add(r, (rp_stage){ .member = rp__is_space, .behaviour = RP_SPLIT_REMOVED }, NULL);
}

/* \w+|[^\w\s]+ */
static rp_status read_whitespace(rp_reader *r, json_t *part)
{
    RP_TRY(read_whitespace_split(r, part));
    return pretokenizers_add(r, (rp_stage){ .member = rp__is_word, .behaviour = RP_SPLIT_CONTIGUOUS }, NULL);
}

static rp_status read_punctuation(rp_reader *r, json_t *part)
{
    rp_stage *stage = NULL;

    RP_TRY(pretokenizers_add(r, (rp_stage){ .member = rp__is_punctuation }, &stage));
    return read_behaviour(r, part, "Isolated", &stage->behaviour);
}

static rp_status read_bert(rp_reader *r, json_t *part)
{
    RP_TRY(read_whitespace_split(r, part));
    return pretokenizers_add(r, (rp_stage){ .member = rp__is_punctuation, .behaviour = RP_SPLIT_ISOLATED }, NULL);
}

rp_status rp__part_prepend(rp_reader *r, const json_t *part, rp_prepend *out)
{
    static const char *const names[] = { [RP_PREPEND_NEVER] = "never", [RP_PREPEND_FIRST] = "first", [RP_PREPEND_ALWAYS] = "always" };
    const char *name = json_string_value(json_object_get(part, "prepend_scheme"));

    *out = rp__part_flag(part, "add_prefix_space", true) ? RP_PREPEND_ALWAYS : RP_PREPEND_NEVER;
    for (int i = 0; name && i < RP_COUNT(names); i++)
        if (!strcmp(name, names[i])) return *out = (rp_prepend)i, RP_OK;
    RP_READ_CHECK(r, RP_ERR_UNSUPPORTED, !name, "a Metaspace with a prepend_scheme '%.80s' is not supported", r->name, name);
    return RP_OK;
}

/* After the byte-level alphabet there are no spaces. */
static rp_status check_spaces(rp_reader *r, const json_t *part)
{
    RP_READ_CHECK(r, RP_ERR_UNSUPPORTED, !r->byte_level, "a pre-tokenizer '%.80s' after ByteLevel is not supported", r->name,
                  rp__part_kind(part));
    return RP_OK;
}

static rp_status read_metaspace(rp_reader *r, json_t *part)
{
    rp_stage *stage = NULL;

    RP_TRY(check_spaces(r, part));
    RP_TRY(pretokenizers_add(r, (rp_stage){ .behaviour = RP_SPLIT_WITH_NEXT }, &stage));
    RP_TRY(rp__part_prepend(r, part, &stage->prepend));
    RP_TRY(rp__part_text(r, part, "replacement", &stage->space));
    RP_READ_CHECK(r, RP_ERR_FORMAT, stage->space.n, "a Metaspace has an empty replacement", r->name);
    if (!rp__part_flag(part, "split", true)) return RP_OK;
    return rp__pattern_new(r->ctx, stage->space.at, stage->space.n, RP_PATTERN_LITERAL, &stage->pattern);
}

static rp_status read_byte_level(rp_reader *r, json_t *part)
{
    rp_stage *stage = NULL;

    RP_TRY(check_spaces(r, part));
    RP_TRY(pretokenizers_add(r, (rp_stage){ .behaviour = RP_SPLIT_ISOLATED, .prepend = RP_PREPEND_ALWAYS }, &stage));
    r->byte_level = true;
    if (rp__part_flag(part, "add_prefix_space", true)) RP_TRY(rp__bytes_push(r->ctx, &stage->space, " ", 1));
    if (!rp__part_flag(part, "use_regex", true)) return RP_OK;
    return rp__pattern_new(r->ctx, GPT2, (int64_t)strlen(GPT2), 0, &stage->pattern);
}

rp_status rp__tokenizer_read_pre_tokenizer(rp_reader *r, json_t *part)
{
    static const rp_part_kind kinds[] = {
        { "Split", read_split }, { "Digits", read_digits }, { "ByteLevel", read_byte_level }, { "Metaspace", read_metaspace },
        { "WhitespaceSplit", read_whitespace_split }, { "Whitespace", read_whitespace }, { "Punctuation", read_punctuation },
        { "BertPreTokenizer", read_bert }, { "CharDelimiterSplit", read_delimiter },
    };

    return rp__read_parts(r, part, "a pre-tokenizer", "pretokenizers", kinds, RP_COUNT(kinds));
}

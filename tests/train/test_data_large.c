/* The claim that data costs no memory: a file of lines, or one text, far larger than the memory limit of the process is read, packed or not,
 * and its batches are returned, within a few MiB. Measured by the kernel in a process of its own. */
/* ctest: device-free thread-free long */
#include "rp_test.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <zlib.h>

#include "data/data.h"
#include "temp.h"
#include "template/chat.h"

enum { VOCAB = 1000, LINE_CHARS = 2000, SLACK_BYTES = 6 << 20 };

/* An id for eight bytes: the store is on disk, too. */
static rp_status encode(void *user, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids)
{
    (void)part;
    int64_t n    = bytes / 8 + 1;
    int32_t *out = rp__host_alloc(user, n * (int64_t)sizeof *out);

    if (!out) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++) out[i] = 8 * i < bytes ? (uint8_t)text[8 * i] : 0;
    *ids   = out;
    *n_ids = n;
    return RP_OK;
}

static int64_t peak_bytes(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (int64_t)use.ru_maxrss << 10;
}

/* A line each, or all of them one list on one line. */
static int64_t write_lines(const char *path, const char *before, const char *after, int64_t bytes, bool packed, bool list)
{
    static char line[LINE_CHARS + 256];
    gzFile f  = gzopen(path, packed ? "wb1" : "wbT");      /* T: as it is */
    int64_t n = 0;

    assert_non_null(f);
    for (int64_t at = 0; at < bytes; n++) {
        int used = snprintf(line, sizeof line, "%s%s%06d", list ? n ? ", " : "[" : "", before, (int)(n % 1000000));
        for (int i = 0; i < LINE_CHARS; i++) line[used++] = (char)('a' + (i * 7 + n) % 26);
        bool last = at + used + (int)strlen(after) >= bytes;
        used += snprintf(line + used, sizeof line - (size_t)used, "%s%s", after, !list ? "\n" : last ? "]" : "");
        assert_int_equal(gzwrite(f, line, (unsigned)used), used);
        at += used;
    }
    assert_int_equal(gzclose(f), Z_OK);
    return n;
}

static rp_status feed(void *user, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids)
{
    return rp__tokenizer_feed(user, text, bytes, part, ids, n_ids);
}

/* What reading takes at most, beyond what there was; -1: it failed. tokenizer NULL: eight bytes are an id. */
static int64_t read_here(const rp_data_config *c, const char *tokenizer, int64_t n_documents)
{
    static const char template[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}";
    rp_ctx *ctx      = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_data_source s = { .user = ctx, .encode = encode, .bos = -1, .eos = 7, .vocab = VOCAB };
    rp_tokenizer *t  = NULL;
    rp_data *d;
    rp_data_batch b;

    if (tokenizer && rp__tokenizer_load(ctx, tokenizer, &t) != RP_OK) return -1;
    if (t) s.user = t, s.encode = feed, s.vocab = 1 << 20;
    int64_t before = peak_bytes();
    if (rp__chat_new(ctx, "m", template, sizeof template - 1, NULL, &s.chat) != RP_OK) return -1;
    if (rp__data_open(ctx, "dataset", c, &s, &d) != RP_OK) return -1;
    rp_data_info info = rp__data_info(d);
    if (info.n_documents != n_documents) return -1;
    for (int64_t step = 0; step < info.steps_per_epoch; step += 97)
        if (rp__data_batch(d, step, 0, &b) != RP_OK) return -1;
    rp__data_close(d);
    rp__chat_free(s.chat);
    rp__tokenizer_free(t);
    return peak_bytes() - before;
}

static int64_t read_alone(const rp_data_config *c, const char *tokenizer, int64_t n_documents)
{
    int ends[2], status;
    int64_t most = -1;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        most = read_here(c, tokenizer, n_documents);
        _exit(write(ends[1], &most, sizeof most) == sizeof most ? 0 : 1);
    }
    close(ends[1]);
    bool whole = read(ends[0], &most, sizeof most) == sizeof most;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(whole && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return most;
}

static void lines_beyond_memory_are_read_within_a_few_mib(void **state)
{
    static const struct { const char *format, *before, *after; bool gz, packed, list; } cases[] = {
        { "jsonl", "{\"text\": \"", "\"}", false, true, false },
        { "jsonl", "{\"text\": \"", "\"}", true, false, false },
        { "jsonl", "{\"text\": \"", "\"}", false, false, true },
        { "chat", "{\"messages\": [{\"role\": \"user\", \"content\": \"why\"}, {\"role\": \"assistant\", \"content\": \"", "\"}]}", false, false, false },
    };
    temp_dir dir = temp_make();

    (void)state;
#ifdef RP_SANITIZED
    skip();                             /* a sanitizer's own memory is no claim of ours */
#endif
    for (int i = 0; i < RP_COUNT(cases); i++) {
        const char *path  = temp_path(&dir, "lines");
        int64_t bytes     = (int64_t)test_draws(getenv("REPRISE_TEST_ALL") ? 20 : 64) << 20;
        int64_t n_lines   = write_lines(path, cases[i].before, cases[i].after, bytes, cases[i].gz, cases[i].list);
        rp_data_config c  = { .path = path, .format = cases[i].format, .column = "text", .packed = cases[i].packed, .train_on_input = i < 3,
                              .max_seq_len = 64, .batch_size = 8, .accumulation = 1, .ranks = 1, .shuffle = true, .ignore_index = -100 };
        int64_t most      = read_alone(&c, NULL, n_lines);
        if (most < 0 || most > SLACK_BYTES) fail_msg("%s: %.1f MiB of lines took %.1f MiB", cases[i].format, (double)bytes / 0x1p20, (double)most / 0x1p20);
        print_message("%s%s: %.0f MiB of lines, %.2f MiB more resident\n", cases[i].format, cases[i].gz ? " in gzip" : "", (double)bytes / 0x1p20,
                      (double)most / 0x1p20);
    }
    temp_remove(&dir);
}

/* Words of different lengths, no digit, a line now and then: SmolLM's first stage finds nothing to cut at. */
static void write_prose(const char *path, int64_t bytes, bool packed)
{
    static char words[1 << 16];
    gzFile f = gzopen(path, packed ? "wb1" : "wbT");
    int used = 0;

    assert_non_null(f);
    for (unsigned n = 0; used < (int)sizeof words - 40; n++)
        used += snprintf(words + used, sizeof words - (size_t)used, "%.*s%s", 1 + (int)(n * n % 9), &"abracadabras"[n % 4],
                         n % 13 ? " " : n % 17 ? ", " : ".\n");
    for (int64_t at = 0; at < bytes; at += used) assert_int_equal(gzwrite(f, words, (unsigned)used), used);
    assert_int_equal(gzclose(f), Z_OK);
}

static void texts_beyond_memory_are_read_within_a_few_mib(void **state)
{
    static const struct { const char *tokenizer; bool gz; int n_files; } cases[] = {
        { "smollm", false, 1 }, { "gpt2", true, 1 }, { "llama3", false, 3 }, { "families/llama2", false, 1 }, { "families/gemma", true, 1 },
        { "families/t5", false, 1 }, { "families/bert", false, 2 },
    };
    temp_dir dir = temp_make();

    (void)state;
#ifdef RP_SANITIZED
    skip();
#endif
    for (int i = 0; i < RP_COUNT(cases); i++) {
        const char *path = temp_path(&dir, "text"), *paths[] = { path, path, path };
        int64_t bytes    = (int64_t)test_draws(24) << 20;
        char tokenizer[512];
        write_prose(path, bytes, cases[i].gz);
        snprintf(tokenizer, sizeof tokenizer, RP_SOURCE_DIR "/tests/golden/tokenizer/%s", cases[i].tokenizer);
        rp_data_config c = { .paths = paths, .n_paths = cases[i].n_files, .format = "text", .packed = true, .train_on_input = true, .max_seq_len = 64,
                             .batch_size = 8, .accumulation = 1, .ranks = 1, .shuffle = true, .ignore_index = -100 };
        int64_t most     = read_alone(&c, tokenizer, cases[i].n_files);
        if (most < 0 || most > SLACK_BYTES) fail_msg("%s: %.1f MiB of text took %.1f MiB", cases[i].tokenizer, (double)bytes / 0x1p20, (double)most / 0x1p20);
        print_message("%s%s: %d of %.0f MiB of text, %.2f MiB more resident\n", cases[i].tokenizer, cases[i].gz ? " in gzip" : "", cases[i].n_files,
                      (double)bytes / 0x1p20, (double)most / 0x1p20);
    }
    temp_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_beyond_memory_are_read_within_a_few_mib),
        cmocka_unit_test(texts_beyond_memory_are_read_within_a_few_mib),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

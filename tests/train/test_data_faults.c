/* Claims about data when memory or the disk runs out: an error that says so, nothing left, and the next reading is the data. */
/* ctest: device-free */
#include "heap_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <zlib.h>

#include "byte_data.h"
#include "temp.h"
#include "template/chat.h"

enum { TEXT_BYTES = 200000, OBJECTS = 1500 };

typedef struct { rp_data_config config; const char *template; uint64_t hash; int64_t n_documents; } data_of;

/* NULL: none. Each reading has its own, as one keeps variables. */
static rp_chat *chat_of(rp_ctx *ctx, const char *template)
{
    heap_faults faults = heap_pause(ctx);
    rp_chat *chat      = NULL;

    if (template) assert_ok(ctx, rp__chat_new(ctx, "m", template, (int64_t)strlen(template), NULL, &chat));
    heap_resume(ctx, faults);
    return chat;
}

static void check_alike(const rp_data *d, data_of *want)
{
    rp_data_info info = rp__data_info(d);

    if (!want->hash) {
        want->hash        = info.hash;
        want->n_documents = info.n_documents;
    }
    assert_true(info.hash == want->hash && info.n_documents == want->n_documents);
}

static rp_status data_is_alike(rp_ctx *ctx, void *user)
{
    data_of *want    = user;
    rp_data_source s = source_of(ctx);
    rp_data *d       = NULL;

    s.chat           = chat_of(ctx, want->template);
    rp_status status = rp__data_open(ctx, "dataset", &want->config, &s, &d);
    rp__chat_free(s.chat);
    if (status != RP_OK) assert_null(d);
    if (status != RP_OK) return status;
    check_alike(d, want);
    rp__data_close(d);
    return RP_OK;
}

static const char *text_file(const temp_dir *dir)
{
    static char text[TEXT_BYTES];
    uint32_t x = 7;

    for (int i = 0; i < TEXT_BYTES; i++) {
        x       = x * 1664525u + 1013904223u;
        text[i] = (x >> 8) % 61 ? (char)('a' + (x >> 16) % 5) : '\n';
    }
    gzFile f = gzopen(temp_path(dir, "a.gz"), "wb");
    assert_int_equal(gzwrite(f, text, TEXT_BYTES), TEXT_BYTES);
    assert_int_equal(gzclose(f), Z_OK);
    return temp_write(dir, "a.txt", text, TEXT_BYTES);
}

/* Objects that no window holds whole, and many that one does. */
static const char *json_file(const temp_dir *dir, const char *name, const char *begin, const char *between, const char *end)
{
    static char text[OBJECTS * 128];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", begin);

    for (int i = 0; i < OBJECTS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s{\"x\": [%d, {\"y\": \"]}\"}], \"text\": \"object %d of a file\\n\"}", i ? between : "", i, i);
    n += (size_t)snprintf(text + n, sizeof text - n, "%s", end);
    assert_true(n > 80000 && n < sizeof text);
    return temp_write(dir, name, text, n);
}

static void data_is_an_error_or_itself_whatever_allocation_fails(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    const struct { const char *path, *format; int64_t few, all; } files[] = {
        { text_file(&dir), "text", 0, 0 },
        { temp_path(&dir, "a.gz"), "text", 0, 0 },
        { json_file(&dir, "a.jsonl", "", "\n", "\n"), "jsonl", 2, 12 },
        { json_file(&dir, "a.json", "[", ",\n ", "]\n"), "jsonl", 2, 12 },
    };

    for (int i = 0; i < RP_COUNT(files); i++) {
        data_of want = { .config = config_of(files[i].path, files[i].format) };
        every_allocation_fails_once(ctx, &(heap_sweep){ .each = test_few_or((int)files[i].few, (int)files[i].all), .least = 8 },
                                    data_is_alike, &want);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* A conversation that could not be made must not become the text of an empty one. */
static void conversations_are_an_error_or_themselves_whatever_allocation_fails(void **state)
{
    static const char template[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
                                   "{% if add_generation_prompt %}<assistant>{% endif %}";
    static const struct { const char *format, *prompt_column, *text; } files[] = {
        { "jsonl", "ask", "{\"ask\": \"a\", \"text\": \"b\"}\n{\"ask\": \"c\", \"text\": \"de\"}\n" },
        { "alpaca", NULL, "{\"instruction\": \"a\", \"input\": \"b\", \"output\": \"c\"}\n" },
        { "chat", NULL, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n" },
        { "chat", NULL, "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": \"b\"}]}\n" },
    };

    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    for (int i = 0; i < 2 * RP_COUNT(files); i++) {
        data_of want = { .config = config_of(temp_text(&dir, "a.jsonl", files[i / 2].text), files[i / 2].format), .template = template };
        want.config.by_template    = true;
        want.config.packed         = false;
        want.config.max_seq_len    = 64;
        want.config.prompt_column  = files[i / 2].prompt_column;
        want.config.train_on_input = i % 2;
        every_allocation_fails_once(ctx, &(heap_sweep){ .each = test_few_or(20, 0), .least = 8 }, data_is_alike, &want);
        assert_int_equal(want.n_documents, 1 + (i < 2));
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* As a disk that fills, wherever it does: no file grows beyond `room`. */
static rp_status open_within(rp_ctx *ctx, data_of *want, int64_t room)
{
    struct rlimit whole, small;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &whole), 0);
    small = (struct rlimit){ (rlim_t)room, whole.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rp_status status = data_is_alike(ctx, want);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &whole), 0);
    return status;
}

/* Short samples take more bytes than their tokens, long ones less: either file is the one that does not fit. */
static void a_full_disk_for_tokens_is_reported_with_its_byte(void **state)
{
    static const int64_t lengths[] = { 2, 64 }, most[] = { 8 * TEXT_BYTES, 4 * TEXT_BYTES };

    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    temp_dir dir     = temp_make();
    const char *path = text_file(&dir);

    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < RP_COUNT(lengths); i++) {
        data_of want            = { .config = config_of(path, "text") };
        int64_t room            = 0;
        want.config.max_seq_len = lengths[i];
        assert_ok(ctx, data_is_alike(ctx, &want));
        for (rp_status status; (status = open_within(ctx, &want, room)) != RP_OK; room += test_few_or(65536, 8192)) {
            assert_int_equal(status, RP_ERR_IO);
            assert_non_null(strstr(rp_error(ctx), "cannot write the temporary file of tokens at byte "));
        }
        assert_true(room >= most[i]);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void tokens_that_cannot_be_read_back_are_an_error(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    temp_dir dir     = temp_make();
    rp_data_config c = config_of(text_file(&dir), "text");
    rp_data_batch b  = { .rows = -1 };

    c.scratch_dir = dir.path;
    rp_data *d    = open_data(ctx, &c);
    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_int_equal(temp_cut_nameless(&dir, 4), 2);
    b.rows = -1;
    assert_int_equal(rp__data_batch(d, 1, 0, &b), RP_ERR_IO);
    assert_non_null(strstr(rp_error(ctx), "cannot read the temporary file of tokens at byte "));
    assert_int_equal(b.rows, -1);
    rp__data_close(d);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* Ranks of one model need the lengths of each other's samples. The files end behind sample 0: its 4 tokens, and its place. */
static void a_batch_fails_at_each_rank_if_a_length_cannot_be_read(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    temp_dir dir     = temp_make();
    rp_data_config c = config_of(text_file(&dir), "text");

    c.scratch_dir = dir.path;
    c.ranks       = 2;
    for (c.rank = 0; c.rank < c.ranks; c.rank++) {
        rp_data_batch b = { .rows = -1 };
        rp_data *d      = open_data(ctx, &c);
        assert_int_equal(temp_cut_nameless(&dir, 16), 2);
        assert_int_equal(rp__data_batch(d, 0, 0, &b), RP_ERR_IO);
        assert_string_equal(rp_error(ctx), "cannot read the temporary file of tokens at byte 16: it ends there");
        assert_int_equal(b.rows, -1);
        rp__data_close(d);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_an_error_or_itself_whatever_allocation_fails),
        cmocka_unit_test(conversations_are_an_error_or_themselves_whatever_allocation_fails),
        cmocka_unit_test(a_full_disk_for_tokens_is_reported_with_its_byte),
        cmocka_unit_test(tokens_that_cannot_be_read_back_are_an_error),
        cmocka_unit_test(a_batch_fails_at_each_rank_if_a_length_cannot_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Claims about tests/fuzz/tar.h, which reads the corpora: it finds every member in order, and refuses archives that tools/fuzz does not write. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include "fuzz/tar.h"

enum { MEMBERS = 3, BYTES = 9 * TAR_BLOCK };

static const struct { const char *name; size_t size; } member[MEMBERS] = { { "a", 0 }, { "b", TAR_BLOCK }, { "found-c", TAR_BLOCK + 1 } };

static void put_sum(uint8_t *header)
{
    unsigned sum = 0;

    memset(header + TAR_SUM_AT, ' ', 8);
    for (int i = 0; i < TAR_BLOCK; i++) sum += header[i];
    snprintf((char *)header + TAR_SUM_AT, 8, "%06o", sum);
}

/* Headers are blocks 0, 1 and 3, the end is blocks 6 and 7; one block more is zero. */
static void make(uint8_t out[BYTES])
{
    uint8_t *at = out;

    memset(out, 0, BYTES);
    for (int i = 0; i < MEMBERS; i++) {
        snprintf((char *)at, TAR_NAME, "%s", member[i].name);
        snprintf((char *)at + TAR_SIZE_AT, 12, "%011o", (unsigned)member[i].size);
        at[TAR_TYPE_AT] = '0';
        memcpy(at + TAR_MAGIC_AT, "ustar\00000", 8);
        put_sum(at);
        memset(at + TAR_BLOCK, 'x', member[i].size);
        at += TAR_BLOCK + (member[i].size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    }
}

static const char *walk(const uint8_t *archive, size_t bytes, int *n)
{
    tar_walk w = { .at = archive, .end = archive + bytes };

    for (*n = 0; tar_next(&w); ++*n) {
        assert_string_equal(w.name, member[*n].name);
        assert_int_equal(w.size, member[*n].size);
        for (size_t i = 0; i < w.size; i++) assert_int_equal(w.data[i], 'x');
    }
    return w.error;
}

static void members_are_read_in_order(void **state)
{
    (void)state;
    uint8_t archive[BYTES];
    int n;

    make(archive);
    assert_null(walk(archive, 8 * TAR_BLOCK, &n));
    assert_int_equal(n, MEMBERS);
}

/* Changes one byte of a header, and corrects its checksum. */
static void assert_refused(int block, int at, uint8_t byte, const char *why)
{
    uint8_t archive[BYTES];
    int n;

    make(archive);
    archive[block * TAR_BLOCK + at] = byte;
    put_sum(archive + block * TAR_BLOCK);
    const char *error = walk(archive, 8 * TAR_BLOCK, &n);
    assert_non_null(error);
    assert_string_equal(error, why);
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    assert_refused(1, TAR_MAGIC_AT + 5, ' ', "a header is no ustar header");
    assert_refused(1, TAR_TYPE_AT, '5', "a member is no plain file");
    assert_refused(1, TAR_PREFIX_AT, 'd', "a member is no plain file");
    assert_refused(1, 0, 'a', "names are not in order");
    assert_refused(1, 0, 0, "names are not in order");
    assert_refused(1, 1, '/', "names are not in order");
    assert_refused(1, TAR_SIZE_AT, '-', "a member ends behind the archive");
    assert_refused(3, TAR_SIZE_AT + 4, '7', "a member ends behind the archive");
}

static void so_is_an_archive_of_another_length_or_with_changed_bytes(void **state)
{
    (void)state;
    uint8_t archive[BYTES];
    int n;

    make(archive);
    for (size_t bytes = 0; bytes <= BYTES; bytes += 64) assert_true((walk(archive, bytes, &n) == NULL) == (bytes == 8 * TAR_BLOCK));
    archive[5 * TAR_BLOCK + 1] = 'y';
    assert_string_equal(walk(archive, 8 * TAR_BLOCK, &n), "a member is not filled up with zeros");
    archive[TAR_SUM_AT]++;
    assert_string_equal(walk(archive, 8 * TAR_BLOCK, &n), "a header is no ustar header");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_read_in_order),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(so_is_an_archive_of_another_length_or_with_changed_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

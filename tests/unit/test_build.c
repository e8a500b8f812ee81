/* Claims about the hash of a build: it is that of the file's code and constants, so any process that runs the same file has the same hash. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "base/build.h"
#include "base/file.h"

static const char *own_file(void)
{
    Dl_info object;

    assert_true(dladdr((const void *)(uintptr_t)&rp__build_hash, &object));
    return access(object.dli_fname, R_OK) ? "/proc/self/exe" : object.dli_fname;
}

/* Each segment that is loaded to be read and never written. Returns the number of their bytes. */
static int64_t hash_segments(const char *file, int64_t bytes, uint64_t *hash)
{
    const ElfW(Ehdr) *head = (const void *)file;
    const ElfW(Phdr) *part = (const void *)(file + head->e_phoff);
    int64_t all            = 0;

    *hash = RP_HASH_START;
    for (int i = 0; i < head->e_phnum; i++) {
        if (part[i].p_type != PT_LOAD || part[i].p_flags & PF_W || !(part[i].p_flags & PF_R)) continue;
        assert_true((int64_t)(part[i].p_offset + part[i].p_filesz) <= bytes);
        *hash = rp__hash(file + part[i].p_offset, part[i].p_filesz, *hash);
        all += (int64_t)part[i].p_filesz;
    }
    return all;
}

static void the_hash_of_a_build_is_that_of_its_file(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    int64_t bytes;
    uint64_t hash;
    char *file;

    (void)state;
    assert_ok(ctx, rp__file_read(ctx, own_file(), INT64_C(1) << 30, &file, &bytes));
    assert_true(hash_segments(file, bytes, &hash) > 10000);
    assert_true(rp__build_hash() == hash);
    rp__release(file);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_of_a_build_is_that_of_its_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

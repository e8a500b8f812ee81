/* Any bytes as a file that may be packed: read whole by lines, or refused in one sentence; portions make no difference. */
/* ctest: watched */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "text/file.h"

#include "fuzz.h"

enum { ENOUGH = 1 << 19 };              /* a few bytes can unpack to gigabytes */

typedef struct { int64_t bytes; uint64_t hash; } sum;

static rp_status by_bytes(rp_text_file *f, int64_t portion, sum *out)
{
    static char to[1 << 16];
    int64_t n = 1;

    while (n && out->bytes < ENOUGH) {
        RP_TRY(rp__text_file_read(f, to, portion, &n));
        for (int64_t i = 0; i < n; i++) out->hash = (out->hash ^ (uint8_t)to[i]) * 0x100000001b3ull;
        out->bytes += n;
    }
    return RP_OK;
}

static rp_status by_lines(rp_text_file *f, sum *out)
{
    const char *line = "";
    int64_t n;

    while (out->bytes < ENOUGH) {
        RP_TRY(rp__text_file_line(f, &line, &n));
        if (!line) return RP_OK;
        FUZZ_CHECK(n > 0 && (!memchr(line, '\n', (size_t)n) || memchr(line, '\n', (size_t)n) == line + n - 1));
        for (int64_t i = 0; i < n; i++) out->hash = (out->hash ^ (uint8_t)line[i]) * 0x100000001b3ull;
        out->bytes += n;
    }
    return RP_OK;
}

static rp_status read_file(rp_ctx *ctx, const char *path, int64_t portion, sum *out)
{
    rp_text_file *f;

    *out             = (sum){ 0, RP_HASH_START };
    rp_status status = rp__text_file_open(ctx, path, &f);
    FUZZ_CHECK(status == RP_OK);
    status = portion ? by_bytes(f, portion, out) : by_lines(f, out);
    rp__text_file_close(f);
    if (status != RP_OK) fuzz_refused(ctx, status);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx = fuzz_ctx();
    char path[64];
    sum large, small, lines;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    rp_status status = read_file(ctx, path, 1 << 16, &large), again = read_file(ctx, path, 4099, &small), by_line = read_file(ctx, path, 0, &lines);
    if (large.bytes < ENOUGH && small.bytes < ENOUGH) {
        FUZZ_CHECK(again == status && by_line == status);
        if (status == RP_OK) {
            FUZZ_CHECK(large.bytes == small.bytes && large.hash == small.hash);
            FUZZ_CHECK(large.bytes == lines.bytes && large.hash == lines.hash);
        }
    }
    close(fd);
    return 0;
}

/* cli/hub/digest.c -- the digests of files on the hub, by libcrypto: sha256 of the bytes, or git's sha1 of a blob, which is the sha1 of
 * "blob LENGTH\0" and the bytes (https://git-scm.com/book/en/v2/Git-Internals-Git-Objects). */
#include "cli/hub/hub.h"

#include <errno.h>
#include <openssl/evp.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20 };

static rp_status digest_read_all(rp_ctx *ctx, int fd, const char *path, EVP_MD_CTX *md, uint8_t *chunk)
{
    int64_t at = 0;

    for (;;) {
        ssize_t n = pread(fd, chunk, CHUNK_BYTES, at);
        if (n < 0 && errno == EINTR) continue;
        RP_CHECK(ctx, n >= 0, RP_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
        if (!n) return RP_OK;
        RP_CHECK(ctx, EVP_DigestUpdate(md, chunk, (size_t)n), RP_ERR_BACKEND, "libcrypto does not digest '%s'", path);
        at += n;
    }
}

static rp_status digest(rp_ctx *ctx, int fd, const char *path, int64_t bytes, hub_digest_kind kind, EVP_MD_CTX *md, uint8_t sum[EVP_MAX_MD_SIZE])
{
    char head[32];
    int n          = snprintf(head, sizeof head, "blob %" PRId64, bytes) + 1;      /* includes the 0 byte */
    bool begun     = EVP_DigestInit_ex(md, kind == HUB_SHA256 ? EVP_sha256() : EVP_sha1(), NULL);
    uint8_t *chunk = rp__host_alloc(ctx, CHUNK_BYTES);

    if (!chunk) return RP_ERR_MEMORY;
    if (begun && kind == HUB_GIT_SHA1) begun = EVP_DigestUpdate(md, head, (size_t)n);
    rp_status status = begun ? digest_read_all(ctx, fd, path, md, chunk) : rp_fail(ctx, RP_ERR_BACKEND, "libcrypto does not know the digest of '%s'", path);
    rp__release(chunk);
    if (status == RP_OK && !EVP_DigestFinal_ex(md, sum, NULL)) status = rp_fail(ctx, RP_ERR_BACKEND, "libcrypto does not digest '%s'", path);
    return status;
}

rp_status hub_digest_of(rp_ctx *ctx, int fd, const char *path, int64_t bytes, hub_digest_kind kind, char out[HUB_DIGEST_CHARS])
{
    uint8_t sum[EVP_MAX_MD_SIZE] = { 0 };
    EVP_MD_CTX *md               = EVP_MD_CTX_new();

    RP_CHECK(ctx, md, RP_ERR_MEMORY, "memory ran out");
    rp_status status = digest(ctx, fd, path, bytes, kind, md, sum);
    EVP_MD_CTX_free(md);
    for (int i = 0; i < (kind == HUB_SHA256 ? 32 : 20); i++) snprintf(out + 2 * i, 3, "%02x", sum[i]);
    return status;
}

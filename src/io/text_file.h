/* io/text_file.h -- a file of text read from its beginning to its end, whatever it is packed with.
 *
 *   file ─ 64 KiB ─▶ gzip 1f 8b │ zstd 28 b5 2f fd │ as it is ─ 64 KiB ─▶ bytes, lines
 *
 * The first bytes decide, not the name; none of the packed kinds is text. Members and frames that follow each other are one text,
 * as their programs make them. Memory is what is above, a line, and what zstd was told to look back (128 MiB at most).
 */
#ifndef RP_TEXT_FILE_H
#define RP_TEXT_FILE_H

#include "base/base.h"

typedef struct rp_text_file rp_text_file;

/* errors  RP_ERR_CONFIG it cannot be opened · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__text_file_open(rp_ctx *ctx, const char *path, rp_text_file **out);
/* The standard input, from where it stands; closing leaves it open. */
rp_status rp__text_file_stdin(rp_ctx *ctx, rp_text_file **out);
void rp__text_file_close(rp_text_file *file);

/* Before the first read: does the file look like text? Told from its first 64 KiB, and only of a file that is not packed.
 * errors  RP_ERR_FORMAT another kind of file, named, or a zero byte, which no text has */
rp_status rp__text_file_check(const rp_text_file *file);

/* Up to `room` bytes; *n is 0 at the end alone. errors RP_ERR_FORMAT it is cut short or damaged, with the byte of the file · RP_ERR_IO */
rp_status rp__text_file_read(rp_text_file *file, char *to, int64_t room, int64_t *n);
/* The next line with its newline, which the last one may lack; borrowed until the next call. *line is NULL at the end. */
rp_status rp__text_file_line(rp_text_file *file, const char **line, int64_t *bytes);

#endif

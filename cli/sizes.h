/* cli/sizes.h -- how commands print sizes: "1.58 GiB", or with --bytes "1699675392 bytes (1.58 GiB)". Error messages are always exact. */
#ifndef CLI_SIZES_H
#define CLI_SIZES_H

#include "base/base.h"

/* Print exact sizes from now on (--bytes). */
void cli_sizes_exact(bool on);
/* A size into out[RP_SIZE_CHARS]; returns out. By default it has three significant digits. If exact, it is that of rp__size_text.
 * _up: rounded up. A budget that is printed so fits. _cell: for a table; if exact or 0, the number alone. _short: never exact. */
const char *cli_size(char *out, int64_t bytes);
const char *cli_size_up(char *out, int64_t bytes);
const char *cli_size_cell(char *out, int64_t bytes);
const char *cli_size_cell_up(char *out, int64_t bytes);
const char *cli_size_short(char *out, int64_t bytes);

#endif

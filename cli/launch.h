/* cli/launch.h -- what the files of the launcher share: what an mpirun writes, read as it comes.
 *
 *   ranks ─┐
 *          mpirun ──pipe──▶ output ──▶ our stderr         all that ranks say, at once, half lines too (progress bars)
 *   notices┘                  └─▶ end                     what mpirun says of how they ended, instead of its banners
 */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#define CLI_TERMINAL "REPRISE_TERMINAL"         /* columns of the terminal that rank 0's stderr is handed on to */

/* How ranks ended, as far as mpirun tells. Open MPI names the rank, MPICH the process. */
typedef struct {
    int signal;                                 /* 0: none was killed */
    char name[64];                              /* of the signal */
    int rank;                                   /* -1: unknown */
    long process;                               /* 0: unknown */
} cli_end;

enum { CLI_HELD = 8192 };

typedef struct {
    int from, to;                               /* descriptors; from < 0: it has ended */
    cli_end *end;
    bool inside_line, inside_notice, after_banner;
    size_t n_held;
    char held[CLI_HELD];                        /* of a line or a notice that is not yet whole */
} cli_output;

/* Reads what there is; false at its end. */
bool cli_output_read(cli_output *o);

#endif

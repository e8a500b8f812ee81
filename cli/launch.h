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
#include <stdint.h>

/* What tells ranks that this launcher has started them: columns of the terminal that their stderr is handed on to, -1 where it is none. */
#define CLI_LAUNCHER "REPRISE_LAUNCHER"

/* Where ranks find the notes: a page that the launcher and its ranks share, whatever mpirun does (cli/notes.c). */
#define CLI_NOTES "REPRISE_NOTES"
typedef struct { volatile int32_t process, code; } cli_note;    /* code: 1 above the exit code; 0: the rank has not ended by itself */
typedef struct {
    int32_t magic, ranks;
    volatile int stop;                          /* the signal that asks all ranks to stop after a step; 0: none has come */
    cli_note rank[];
} cli_notes;

/* The launcher's: zeros, and *file is open for as long as ranks may join. NULL: the system has no such memory, errno says why. */
cli_notes *cli_notes_make(int ranks, int *file);
void cli_notes_drop(cli_notes *notes, int file);
/* A rank's, which notes its process there; NULL: no launcher of ours has started it, or its notes are out of reach. */
cli_notes *cli_notes_join(int rank);
/* Has the launcher of the joined notes gone without a word? */
bool cli_notes_are_left(void);

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
    bool inside_line, inside_notice, after_banner, blank_held;     /* an empty line may belong to a notice */
    size_t n_held;
    char held[CLI_HELD];                        /* of a line or a notice that is not yet whole */
} cli_output;

/* Reads what there is; false at its end. */
bool cli_output_read(cli_output *o);

#endif

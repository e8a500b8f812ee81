/* cli/launch.h -- shared by the files of the launcher: its notes, and the output of mpirun.
 *
 *   ranks ─┐
 *          mpirun ──pipe──▶ output ──▶ our stderr         the output of the ranks at once, incomplete lines included (progress bars)
 *   notices┘                  └─▶ end                     how the ranks ended, read from mpirun's notices, which are not printed
 */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* This variable is set in ranks that the launcher started: the columns of the terminal to which it passes their stderr on, or -1 for no terminal. */
#define CLI_LAUNCHER "REPRISE_LAUNCHER"

/* This variable is the path of the notes: memory that the launcher and its ranks share independently of mpirun (cli/notes.c). */
#define CLI_NOTES "REPRISE_NOTES"
typedef struct { volatile int32_t process, code; } cli_note;    /* code: exit code + 1; 0: the rank has not ended by itself */
typedef struct {
    int32_t magic, ranks;
    volatile int stop;                          /* the signal after which all ranks stop at the end of a step; 0: none */
    cli_note rank[];
} cli_notes;

/* For the launcher: create zeroed notes. *file stays open while ranks may join. NULL after an error of the system, in errno. */
cli_notes *cli_notes_make(int ranks, int *file);
void cli_notes_drop(cli_notes *notes, int file);
/* For a rank: open the notes and write its process id there. NULL: this launcher did not start it, or the notes cannot be opened. */
cli_notes *cli_notes_join(int rank);
/* Whether the launcher of the joined notes has died without setting a signal. */
bool cli_notes_are_left(void);

/* How the ranks ended, as far as mpirun reports it. Open MPI reports the rank, MPICH the process. */
typedef struct {
    int signal;                                 /* signal that killed a rank; 0: none */
    char name[64];                              /* name of the signal */
    int rank;                                   /* -1: unknown */
    long process;                               /* 0: unknown */
} cli_end;

enum { CLI_HELD = 8192 };

typedef struct {
    int from, to;                               /* descriptors; from < 0: the output has ended */
    cli_end *end;
    bool inside_line, inside_notice, after_banner, blank_held;     /* blank_held: an empty line that may belong to a notice */
    size_t n_held;
    char held[CLI_HELD];                        /* the beginning of a line or notice */
} cli_output;

/* Read the available output; false at its end. */
bool cli_output_read(cli_output *o);

#endif

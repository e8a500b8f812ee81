/* base/poisoned.h -- included before every file: makes the use of unsafe C functions a compile error. */
#ifndef RP_POISONED_H
#define RP_POISONED_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* clang defines these as macros if it fortifies the headers, and a macro cannot be poisoned. */
#undef sprintf
#undef vsprintf
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atof gets
#endif

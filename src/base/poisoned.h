/* base/poisoned.h -- included before every file: functions that cannot be used safely do not compile. */
#ifndef RP_POISONED_H
#define RP_POISONED_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* Macros, where clang fortifies the headers: a macro cannot be poisoned. */
#undef sprintf
#undef vsprintf
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atof gets
#endif

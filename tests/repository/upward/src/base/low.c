/* Breaks the order of folders on purpose: tools/check-layers must refuse it. */
#include "plan/high.h"

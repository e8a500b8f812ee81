/* Calls what base/text.h declares, which only another folder's header includes: tools/check-includes must refuse it. */
#include "tensor/wide.h"

int rp__zz_short(void);
int rp__zz_short(void) { return rp__zz_wide() + rp__zz_letters("gnome"); }

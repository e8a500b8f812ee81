#include "base/text.h"
int rp__zz_wide(void);

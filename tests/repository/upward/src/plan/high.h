/* What base/low.c must not see. */

int rp__zz_letters(const char *text);

/* temp_test.h -- for tests that have a folder of their own each. */
#ifndef RP_TEMP_TEST_H
#define RP_TEMP_TEST_H

#include "temp.h"

static temp_dir dir;

static inline int setup(void **state)
{
    (void)state;
    dir = temp_make();
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    temp_remove(&dir);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif

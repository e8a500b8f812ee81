/* tests/thread_free.c -- linked in pthread_create's place (--wrap) to tests that are said to start no thread, which ThreadSanitizer is spared:
 * one that starts any fails everywhere else. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    (void)thread, (void)attributes, (void)run, (void)argument;
    fputs("a thread is started by a test that tests/CMakeLists.txt says starts none (RP_THREAD_FREE_TESTS)\n", stderr);
    abort();
}

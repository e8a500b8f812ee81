/* The version of the installed library must be the one its headers were written for. */
#include <reprise/op.h>
#include <reprise/reprise.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    char headers[32];

    snprintf(headers, sizeof headers, "%d.%d.%d", RP_VERSION_MAJOR, RP_VERSION_MINOR, RP_VERSION_PATCH);
    puts(rp_version());
    return strcmp(headers, rp_version()) != 0;
}

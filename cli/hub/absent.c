/* cli/hub/absent.c -- the download command of a program that was built without libcurl or libcrypto. */
#include "cli/hub/download.h"

int cli_download_run(cli *c, const cli_download *order)
{
    cli_say(c, "cannot download '%s': this program was built without libcurl or libcrypto", order->repo);
    return 1;
}

#include "common/bus/cert.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* zcert_load does not say what is wrong, and a file that this user may not read is not one that is
 * missing or holds something else. */
int cert_load(zcert_t **ret_cert, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return -errno;
    close(fd);
    *ret_cert = zcert_load(path);
    return *ret_cert ? 0 : -EBADMSG;
}

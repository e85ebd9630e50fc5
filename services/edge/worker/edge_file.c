/* Opens files that the edge trusts, and checks that nobody else can have written to them. */
#include "services/edge/worker/edge_file.h"


/* In a directory that others can write to, somebody else may have created the file: its owner could
 * read it, choose what is read from it, and truncate it while it is mapped (SIGBUS). With a second
 * hard link, somebody else may have access under the other name. */
ngx_uint_t
edge_file_is_own(int file)
{
    struct stat  st;

    if (fstat(file, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid()
        && (st.st_mode & 077) == 0 && st.st_nlink == 1)
    {
        return 1;
    }
    ngx_set_errno(EPERM);
    return 0;
}


/* O_CREAT only if the file does not exist: with that flag Linux before 6.12 takes the directory's
 * lock even for a file that exists, and blocks while the file system is frozen (fsfreeze, as for a
 * snapshot of the machine). */
int
edge_file_open(const char *path, int flags)
{
    int  file;

    flags |= O_RDWR|O_CLOEXEC|O_NOFOLLOW;
    file = open(path, flags);
    if (file < 0 && errno == ENOENT) {
        file = open(path, flags|O_CREAT, 0600);
    }
    return file;
}

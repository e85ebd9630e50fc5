/* Whose a file is that this edge would trust. */
#include "services/edge/worker/edge_file.h"


/* Where anybody may make files, of any name, who owns one reads what is written to it, cuts it
 * off under those who have it mapped, and chooses what is read from it. A second name may be one
 * that somebody else has it under. */
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


/* O_CREAT only for a file that is not there: with it Linux before 6.12 takes the folder's lock, and
 * waits for as long as the file system is frozen (fsfreeze, as for a snapshot of the machine), also
 * where the file exists. */
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

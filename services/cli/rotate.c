#include "services/cli/rotate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { CHUNK = 1 << 16, NAME_LEN = 300 };

/* Copy bytes from *offset to limit, or to the end of the file when limit is 0. 0 | -errno. */
static int copy_range(int from, int to, off_t *offset, off_t limit)
{
    char data[CHUNK];

    for (;;) {
        size_t want = limit && limit - *offset < CHUNK ? (size_t)(limit - *offset) : CHUNK;
        ssize_t n = want ? pread(from, data, want, *offset) : 0;

        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        for (ssize_t done = 0; done < n;) {
            ssize_t put = write(to, data + done, (size_t)(n - done));

            if (put < 0)
                return -errno;
            done += put;
        }
        *offset += n;
    }
}

/* Remove the copied bytes from the front of the log; what is appended meanwhile stays. Where the
 * file system can take out blocks (ext4, XFS) that is one step. Elsewhere the rest is copied until
 * there is none, and the file emptied: a line written in between, within a microsecond, is lost. */
static int cut_front(int log, int to, off_t *copied, size_t block)
{
    off_t whole = *copied - *copied % (off_t)block;
    int r;

    if (whole > 0 && fallocate(log, FALLOC_FL_COLLAPSE_RANGE, 0, whole) == 0)
        return 0;
    r = copy_range(log, to, copied, 0);
    return r ? r : ftruncate(log, 0) ? -errno : 0;
}

/* NAME.1 becomes NAME.2, and so on; the last one is deleted. */
static void shift_old(int dir, const char *name, int old)
{
    for (int i = old; i > 1; i--) {
        char from[NAME_LEN], to[NAME_LEN];

        snprintf(from, sizeof(from), "%s.%d", name, i - 1);
        snprintf(to, sizeof(to), "%s.%d", name, i);
        renameat(dir, from, dir, to);
    }
}

/* Rotate one log. 0 | -errno: nothing was removed from it. */
static int rotate_log(int dir, int log, const char *name, off_t size, int old)
{
    char fresh[NAME_LEN], first[NAME_LEN];
    struct statfs fs;
    size_t block = fstatfs(log, &fs) ? 4096 : (size_t)fs.f_bsize;
    off_t copied = 0;
    int to, r;

    snprintf(fresh, sizeof(fresh), "%s.new", name);
    snprintf(first, sizeof(first), "%s.1", name);
    unlinkat(dir, fresh, 0);
    to = openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (to < 0)
        return -errno;
    /* Whole blocks, and fewer bytes than the file has: the file system takes out nothing else. */
    r = copy_range(log, to, &copied, size - 1 - (size - 1) % (off_t)block);
    if (r) {
        unlinkat(dir, fresh, 0);
        /* First keep, then remove: if this process is killed in between, lines are there twice and
         * none is lost. */
    } else {
        shift_old(dir, name, old);
        r = renameat(dir, fresh, dir, first) ? -errno : cut_front(log, to, &copied, block);
    }
    close(to);
    return r;
}

/* A log that cannot be kept must still not fill the disk: at twice its size it is emptied, and its
 * next line says so. */
static void throw_away(int log, const char *name, off_t size, const char *why)
{
    if (!ftruncate(log, 0))
        dprintf(log, "%lld bytes of %s were thrown away, they could not be kept: %s\n",
                (long long)size, name, why);
}

static bool is_log(const char *name)
{
    size_t n = strlen(name);

    return n > 4 && n < NAME_LEN - 16 && !strcmp(name + n - 4, ".log");
}

/* Other users of the folder could put links here, so links are not followed. */
static int rotate_one(int dir, const char *name, long long bytes, int old)
{
    int log = openat(dir, name, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    int r = 0;

    if (log < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(log, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > bytes) {
        r = rotate_log(dir, log, name, st.st_size, old);
        if (r && st.st_size > 2 * bytes)
            throw_away(log, name, st.st_size, strerror(-r));
    }
    close(log);
    return r;
}

int rotate_logs(const char *dir, long long bytes, int old)
{
    DIR *all = opendir(dir);
    struct dirent *entry;
    int status = EXIT_SUCCESS;

    if (!all || bytes < 4096 || old < 1) {
        fprintf(stderr, "error: %s: %s\n", dir,
                all ? "a log has at least 4096 bytes, and one old one" : strerror(errno));
        if (all)
            closedir(all);
        return EXIT_FAILURE;
    }
    while ((entry = readdir(all))) {
        int r = is_log(entry->d_name) ? rotate_one(dirfd(all), entry->d_name, bytes, old) : 0;

        if (r) {
            fprintf(stderr, "error: cannot rotate %s/%s: %s\n", dir, entry->d_name, strerror(-r));
            status = EXIT_FAILURE;
        }
    }
    closedir(all);
    return status;
}

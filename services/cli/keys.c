#include "services/cli/keys.h"
#include "common/base/memory.h"
#include "common/base/cleanup.h"
#include "common/bus/cert.h"
#include "common/schema/role.h"

#include <czmq.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

/* Who writes. */
typedef struct owner {
    uid_t uid;
    gid_t gid;
} owner_t;

/* The folder of a peer, opened once: wherever its path leads later, its files are written in this
 * one, by whom it belonged to then. */
typedef struct folder {
    int fd;
    owner_t owner;
} folder_t;

static const owner_t root = {0};

/* A line about dir/name/file, the last two of which may be "". */
static int keys_fail(const char *what, const char *dir, const char *name, const char *file)
{
    const char *why = strerror(errno);
    char path[PATH_SIZE];

    snprintf(path, sizeof(path), "%s%s%s%s%s", dir, *name ? "/" : "", name, *file ? "/" : "", file);
    if (!getuid() && geteuid())
        fprintf(stderr, "error: cannot %s %s as user %u, whose folder that is in: %s\n", what, path,
                (unsigned)geteuid(), why);
    else
        fprintf(stderr, "error: cannot %s %s: %s\n", what, path, why);
    return -EIO;
}

/* Root writes as the owner of DIR, or where that is root's, of DIR/NAME: services could not read
 * root's files, and whoever owns a folder could lead root elsewhere with a link. False: errno. */
static bool become_owner(const owner_t *owner)
{
    if (getuid())
        return true;
    if (seteuid(0) || setegid(0))
        return false;
    return !owner->uid || (!setgroups(0, NULL) && !setegid(owner->gid) && !seteuid(owner->uid));
}

static bool find_owner(int fd, owner_t *out)
{
    struct stat st;

    if (fstat(fd, &st))
        return false;
    *out = (owner_t){.uid = st.st_uid, .gid = st.st_gid};
    return true;
}

/* ---- folders ---- */

/* A folder in another one. Root follows no link there. -1: errno. */
static int open_in(int at, const char *name)
{
    return openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC | (getuid() ? 0 : O_NOFOLLOW));
}

/* The same, made where it is missing. */
static int make_in(int at, const char *name)
{
    int fd = open_in(at, name);

    if (fd >= 0 || errno != ENOENT || (mkdirat(at, name, 0777) && errno != EEXIST))
        return fd;
    return open_in(at, name);
}

/* DIR itself. */
static int open_last(const char *path)
{
    return open_in(AT_FDCWD, path);
}

/* One above those that are missing: the path to it may lead over links, as systems have them
 * (/var/run). */
static int open_above(const char *path)
{
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The folder of that path, which is changed. What is missing of it is made by the owner of the
 * nearest folder above it that there is. -1: errno. */
static int open_path(char *path, int (*open_there)(const char *path))
{
    owner_t owner;
    char *name;
    int above, fd;

    for (size_t len = strlen(path); len > 1 && path[len - 1] == '/';)
        path[--len] = '\0';
    fd = open_there(path);
    if (fd >= 0 || errno != ENOENT || !*path)
        return fd;
    name = strrchr(path, '/');
    if (name)
        *name++ = '\0';
    above = !name   ? open_in(AT_FDCWD, ".")
            : *path ? open_path(path, open_above)
                    : open_in(AT_FDCWD, "/");
    if (above < 0)
        return above;
    fd =
        find_owner(above, &owner) && become_owner(&owner) ? make_in(above, name ? name : path) : -1;
    close(above);
    return fd;
}

/* DIR. 0: the caller closes ret->fd | -EIO. */
static int open_dir(const char *dir, folder_t *ret)
{
    char path[PATH_SIZE];

    if (snprintf(path, sizeof(path), "%s", dir) >= PATH_SIZE) {
        errno = ENAMETOOLONG;
        return keys_fail("open", dir, "", "");
    }
    ret->fd = become_owner(&root) ? open_path(path, open_last) : -1;
    return ret->fd < 0 || !find_owner(ret->fd, &ret->owner) ? keys_fail("open", dir, "", "") : 0;
}

/* Write as its owner, and in it. */
static int enter_folder(const folder_t *self, const char *dir, const char *name)
{
    return !become_owner(&self->owner) || fchdir(self->fd)
               ? keys_fail("write as the owner of", dir, name, "")
               : 0;
}

/* DIR/NAME, with the folder of its peers. 0: the caller closes ret->fd | -EIO. */
static int open_folder(const folder_t *in, const char *dir, const char *name, folder_t *ret)
{
    int peers;

    ret->fd = become_owner(&in->owner) ? make_in(in->fd, name) : -1;
    if (ret->fd < 0 || !find_owner(ret->fd, &ret->owner))
        return keys_fail("write", dir, name, "");
    if (in->owner.uid)
        ret->owner = in->owner;
    peers = become_owner(&ret->owner) ? make_in(ret->fd, "peers") : -1;
    if (peers < 0 || faccessat(peers, ".", W_OK, AT_EACCESS)) {
        int r = keys_fail("write", dir, name, "peers");

        if (peers >= 0)
            close(peers);
        return r;
    }
    close(peers);
    return 0;
}

/* ---- keys ---- */

/* The key of name, in whose folder this is: read, or made when there is none. NULL: it cannot be
 * read or written. */
static zcert_t *own_key(const char *dir, const char *name)
{
    zcert_t *cert = NULL;
    int r = cert_load(&cert, "self.cert_secret");

    if (r && r != -ENOENT && r != -EBADMSG) { /* it may be a key that peers know */
        errno = -r;
        keys_fail("read", dir, name, "self.cert_secret");
        return NULL;
    }
    if (r) {
        cert = zcert_new();
        zcert_set_meta(cert, "name", "%s", name);
        if (zcert_save(cert, "self.cert")) {
            zcert_destroy(&cert);
            keys_fail("write", dir, name, "self.cert");
            return NULL;
        }
    }
    chmod("self.cert_secret", 0600);
    return cert;
}

/* Does the file hold this public key? */
static bool holds_key(const char *path, zcert_t *cert)
{
    zcert_t *held = NULL;
    bool same = !cert_load(&held, path) && !strcmp(zcert_public_txt(held), zcert_public_txt(cert));

    zcert_destroy(&held);
    return same;
}

/* Add the public key of name to owner's peers, or remove it, in owner's folder. The file is
 * replaced by rename, because running services read it; one that holds the key already stays as it
 * is. */
static int list_key(const char *dir, const char *owner, const char *name, zcert_t *cert,
                    bool listed)
{
    char path[PATH_SIZE], fresh[PATH_SIZE];

    snprintf(path, sizeof(path), "peers/%s.cert", name);
    snprintf(fresh, sizeof(fresh), "peers/.%s.new", name);
    if (!listed)
        return unlink(path) && errno != ENOENT ? keys_fail("remove", dir, owner, path) : 0;
    if (holds_key(path, cert))
        return 0;
    if (zcert_save_public(cert, fresh) || rename(fresh, path))
        return keys_fail("write", dir, owner, path);
    return 0;
}

static int make_one(const char *dir, int count, char **names, const folder_t *folders,
                    const roles_t *roles, int i)
{
    int r = enter_folder(&folders[i], dir, names[i]);
    zcert_t *cert = r ? NULL : own_key(dir, names[i]);

    if (!cert)
        return -EIO;
    for (int k = 0; !r && k < count; k++) {
        r = enter_folder(&folders[k], dir, names[k]);
        if (!r)
            r = list_key(dir, names[k], names[i], cert, roles_meet(roles[i], roles[k]));
    }
    zcert_destroy(&cert);
    return r;
}

static bool check_names(int count, char **names, roles_t *roles)
{
    for (int i = 0; i < count; i++)
        if (!peer_name_check(names[i], strlen(names[i]), &roles[i])) {
            fprintf(
                stderr,
                "error: \"%s\" is no name of a peer: it is a role (proto/roles.def), or role@name "
                "with up to 63 letters, digits, dots, dashes and underscores\n",
                names[i]);
            return false;
        }
    return true;
}

int keys_make(const char *dir, int count, char **names)
{
    _cleanup_(free_mem) roles_t *roles =
        memory_need(calloc((size_t)count + 1, sizeof(*roles)), "roles");
    _cleanup_(free_mem) folder_t *folders =
        memory_need(calloc((size_t)count + 1, sizeof(*folders)), "folders of peers");
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), r;
    folder_t in = {.fd = -1};

    for (int i = 0; i < count; i++)
        folders[i].fd = -1;
    umask(0077);
    r = check_names(count, names, roles) ? open_dir(dir, &in) : -EINVAL;
    for (int i = 0; !r && i < count; i++)
        r = open_folder(&in, dir, names[i], &folders[i]);
    for (int i = 0; !r && i < count; i++)
        r = make_one(dir, count, names, folders, roles, i);
    for (int i = 0; i < count; i++)
        if (folders[i].fd >= 0)
            close(folders[i].fd);
    if (in.fd >= 0)
        close(in.fd);
    if (here >= 0) {
        (void)!(become_owner(&root) && !fchdir(here));
        close(here);
    }
    return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

#include "services/cli/keys.h"
#include "common/base/memory.h"
#include "common/base/cleanup.h"
#include "common/bus/cert.h"
#include "common/schema/role.h"

#include <czmq.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

static int keys_fail(const char *what, const char *path)
{
    const char *why = strerror(errno);

    if (!getuid() && geteuid())
        fprintf(stderr, "error: cannot %s %s as user %u, whose folder that is in: %s\n", what, path,
                (unsigned)geteuid(), why);
    else
        fprintf(stderr, "error: cannot %s %s: %s\n", what, path, why);
    return -EIO;
}

/* The owner of path, or of the nearest folder above it that there is. */
static bool find_owner(const char *path, struct stat *ret_st)
{
    char at[PATH_SIZE], *slash;

    snprintf(at, sizeof(at), "%s", path);
    while (stat(at, ret_st)) {
        if (errno != ENOENT || !strcmp(at, "."))
            return false;
        slash = strrchr(at, '/');
        if (!slash)
            snprintf(at, sizeof(at), ".");
        else
            slash[slash == at] = '\0'; /* "/" of "/name" */
    }
    return true;
}

/* Root writes as the owner of DIR, or where that is root's, of DIR/NAME: services could not read
 * root's files, and whoever owns a folder could lead root elsewhere with a link. */
static int become_owner(const char *dir, const char *name)
{
    char path[PATH_SIZE];
    struct stat st;

    if (getuid())
        return 0;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (seteuid(0) || setegid(0) || !find_owner(dir, &st) || (!st.st_uid && !find_owner(path, &st)))
        return keys_fail("tell who owns", dir);
    if (st.st_uid && (setgroups(0, NULL) || setegid(st.st_gid) || seteuid(st.st_uid)))
        return keys_fail("write as the owner of", dir);
    return 0;
}

/* The key of name: read, or made when there is none. NULL: it cannot be read or written. */
static zcert_t *own_key(const char *dir, const char *name)
{
    char path[PATH_SIZE], kept[PATH_SIZE];
    zcert_t *cert = NULL;
    int r;

    snprintf(kept, sizeof(kept), "%s/%s/self.cert_secret", dir, name);
    r = cert_load(&cert, kept);
    if (r && r != -ENOENT && r != -EBADMSG) { /* it may be a key that peers know */
        errno = -r;
        keys_fail("read", kept);
        return NULL;
    }
    if (r) {
        cert = zcert_new();
        snprintf(path, sizeof(path), "%s/%s/self.cert", dir, name);
        zcert_set_meta(cert, "name", "%s", name);
        if (zcert_save(cert, path)) {
            zcert_destroy(&cert);
            keys_fail("write", path);
            return NULL;
        }
    }
    chmod(kept, 0600);
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

/* Add the public key of name to owner's peers, or remove it. The file is replaced by rename,
 * because running services read it; one that holds the key already stays as it is. */
static int list_key(const char *dir, const char *owner, const char *name, zcert_t *cert,
                    bool listed)
{
    char path[PATH_SIZE], fresh[PATH_SIZE];

    snprintf(path, sizeof(path), "%s/%s/peers/%s.cert", dir, owner, name);
    snprintf(fresh, sizeof(fresh), "%s/%s/peers/.%s.new", dir, owner, name);
    if (!listed)
        return unlink(path) && errno != ENOENT ? keys_fail("remove", path) : 0;
    if (holds_key(path, cert))
        return 0;
    if (zcert_save_public(cert, fresh) || rename(fresh, path))
        return keys_fail("write", path);
    return 0;
}

static int make_one(const char *dir, int count, char **names, const roles_t *roles, int i)
{
    int r = become_owner(dir, names[i]);
    zcert_t *cert = r ? NULL : own_key(dir, names[i]);

    if (!cert)
        return -EIO;
    for (int k = 0; !r && k < count; k++) {
        r = become_owner(dir, names[k]);
        if (!r)
            r = list_key(dir, names[k], names[i], cert, roles_meet(roles[i], roles[k]));
    }
    zcert_destroy(&cert);
    return r;
}

int keys_make(const char *dir, int count, char **names)
{
    _cleanup_(free_mem) roles_t *roles =
        memory_need(calloc((size_t)count + 1, sizeof(*roles)), "roles");
    char path[PATH_SIZE];
    int r = 0;

    umask(0077);
    for (int i = 0; !r && i < count; i++) {
        if (!peer_name_check(names[i], strlen(names[i]), &roles[i])) {
            fprintf(
                stderr,
                "error: \"%s\" is no name of a peer: it is a role (proto/roles.def), or role@name "
                "with up to 63 letters, digits, dots, dashes and underscores\n",
                names[i]);
            return EXIT_FAILURE;
        }
        snprintf(path, sizeof(path), "%s/%s/peers", dir, names[i]);
        if (become_owner(dir, names[i]))
            return EXIT_FAILURE;
        if (zsys_dir_create("%s", path) || eaccess(path, W_OK)) {
            keys_fail("write", path);
            return EXIT_FAILURE;
        }
    }
    for (int i = 0; !r && i < count; i++)
        r = make_one(dir, count, names, roles, i);
    return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

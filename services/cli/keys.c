#include "services/cli/keys.h"
#include "common/base/memory.h"
#include "common/base/cleanup.h"
#include "common/schema/role.h"

#include <czmq.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

static int keys_fail(const char *path)
{
    fprintf(stderr, "error: cannot write %s: %s\n", path, strerror(errno));
    return -EIO;
}

/* The key of name: read, or made when there is none. NULL: it cannot be written. */
static zcert_t *own_key(const char *dir, const char *name)
{
    char path[PATH_SIZE], kept[PATH_SIZE];
    zcert_t *cert;

    snprintf(kept, sizeof(kept), "%s/%s/self.cert_secret", dir, name);
    cert = zcert_load(kept);
    if (!cert) {
        cert = zcert_new();
        snprintf(path, sizeof(path), "%s/%s/self.cert", dir, name);
        zcert_set_meta(cert, "name", "%s", name);
        if (zcert_save(cert, path)) {
            zcert_destroy(&cert);
            keys_fail(path);
            return NULL;
        }
    }
    chmod(kept, 0600);
    return cert;
}

/* Add the public key of name to owner's peers, or remove it. The file is replaced by rename,
 * because running services read it. */
static int list_key(const char *dir, const char *owner, const char *name, zcert_t *cert,
                    bool listed)
{
    char path[PATH_SIZE], fresh[PATH_SIZE];

    snprintf(path, sizeof(path), "%s/%s/peers/%s.cert", dir, owner, name);
    snprintf(fresh, sizeof(fresh), "%s/%s/peers/.%s.new", dir, owner, name);
    if (!listed)
        return unlink(path) && errno != ENOENT ? keys_fail(path) : 0;
    if (zcert_save_public(cert, fresh) || rename(fresh, path))
        return keys_fail(path);
    return 0;
}

static int make_one(const char *dir, int count, char **names, const roles_t *roles, int i)
{
    zcert_t *cert = own_key(dir, names[i]);
    int r = cert ? 0 : -EIO;

    for (int k = 0; !r && k < count; k++)
        r = list_key(dir, names[k], names[i], cert, roles_meet(roles[i], roles[k]));
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
        if (zsys_dir_create("%s", path) || access(path, W_OK)) {
            keys_fail(path);
            return EXIT_FAILURE;
        }
    }
    for (int i = 0; !r && i < count; i++)
        r = make_one(dir, count, names, roles, i);
    return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

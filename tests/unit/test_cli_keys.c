/* Keys that the command line makes, and what their readers say of those that they may not read. */
#include "services/cli/keys.h"
#include "common/base/err.h"
#include "common/bus/bus.h"
#include "common/bus/cert.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SERVICE = 64999, NOBODY = 65534 };

static char dir[] = "/tmp/postern-keys-XXXXXX", keys[64], path[4][256];

static void make_dir(void)
{
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(chmod(dir, 0755), 0);
    snprintf(keys, sizeof(keys), "%s/keys", dir);
    cr_assert_eq(mkdir(keys, 0755), 0);
}

static void remove_dir(void)
{
    char command[64];

    if (!getuid())
        (void)!seteuid(0);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(cli_keys, .init = make_dir, .fini = remove_dir, .timeout = 60);

static const char *in_keys(const char *name)
{
    static int next;
    char *out = path[next++ % 4];

    snprintf(out, sizeof(path[0]), "%s/%s", keys, name);
    return out;
}

static int make(int count, ...)
{
    char *names[8];
    va_list args;

    va_start(args, count);
    for (int i = 0; i < count; i++)
        names[i] = va_arg(args, char *);
    va_end(args);
    return keys_make(keys, count, names);
}

/* The inode, which another file put in its place does not have, and when it was written. */
static struct stat look(const char *name)
{
    struct stat st;

    cr_assert_eq(stat(in_keys(name), &st), 0, "%s: %s", name, strerror(errno));
    return st;
}

static void expect_owner(const char *name, uid_t uid)
{
    struct stat st = look(name);

    cr_expect_eq(st.st_uid, uid, "%s belongs to %u", name, (unsigned)st.st_uid);
    cr_expect_eq(st.st_gid, uid, "%s belongs to group %u", name, (unsigned)st.st_gid);
    cr_expect_eq(st.st_mode & 0077, 0, "%s", name);
}

Test(cli_keys, lists_that_say_so_already_are_not_written)
{
    struct stat before, after;

    cr_assert_eq(make(2, "routes", "gateway"), 0);
    before = look("routes/peers/gateway.cert");
    cr_assert_eq(make(3, "routes", "gateway", "edge@eu-1"), 0);
    after = look("routes/peers/gateway.cert");
    cr_expect_eq(before.st_ino, after.st_ino);
    cr_expect_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    look("routes/peers/edge@eu-1.cert");
}

Test(cli_keys, a_list_with_another_key_is_mended)
{
    zcert_t *cert = NULL, *listed = NULL;

    cr_assert_eq(make(2, "routes", "gateway"), 0);
    cr_assert_eq(rename(in_keys("routes/self.cert"), in_keys("routes/peers/gateway.cert")), 0);
    cr_assert_eq(make(2, "routes", "gateway"), 0);
    cr_assert_eq(cert_load(&cert, in_keys("gateway/self.cert_secret")), 0);
    cr_assert_eq(cert_load(&listed, in_keys("routes/peers/gateway.cert")), 0);
    cr_expect_str_eq(zcert_public_txt(listed), zcert_public_txt(cert));
    zcert_destroy(&cert);
    zcert_destroy(&listed);
}

Test(cli_keys, what_root_makes_belongs_to_the_owner_of_the_folder)
{
    if (getuid())
        cr_skip_test("only root can write for others");
    cr_assert_eq(chown(keys, SERVICE, SERVICE), 0);
    cr_assert_eq(make(3, "routes", "gateway", "edge@eu-1"), 0);
    expect_owner("edge@eu-1", SERVICE);
    expect_owner("edge@eu-1/peers/routes.cert", SERVICE);
    expect_owner("routes/self.cert", SERVICE);
    expect_owner("routes/self.cert_secret", SERVICE);
    expect_owner("routes/peers/edge@eu-1.cert", SERVICE);
}

Test(cli_keys, lists_that_root_left_unreadable_are_mended)
{
    if (getuid())
        cr_skip_test("only root can write for others");
    cr_assert_eq(chown(keys, SERVICE, SERVICE), 0);
    cr_assert_eq(make(2, "routes", "gateway"), 0);
    cr_assert_eq(seteuid(0), 0);
    cr_assert_eq(setegid(0), 0);
    cr_assert_eq(chown(in_keys("routes/peers/gateway.cert"), 0, 0), 0);
    cr_assert_eq(make(2, "routes", "gateway"), 0);
    expect_owner("routes/peers/gateway.cert", SERVICE);
}

Test(cli_keys, where_the_folder_is_roots_each_part_belongs_to_the_owner_of_its_own)
{
    if (getuid())
        cr_skip_test("only root can write for others");
    cr_assert_eq(mkdir(in_keys("routes"), 0700), 0);
    cr_assert_eq(chown(in_keys("routes"), SERVICE, SERVICE), 0);
    cr_assert_eq(make(2, "routes", "gateway"), 0);
    cr_assert_eq(seteuid(0), 0);
    expect_owner("routes/self.cert_secret", SERVICE);
    expect_owner("routes/peers/gateway.cert", SERVICE);
    expect_owner("gateway/self.cert_secret", 0);
    expect_owner("gateway/peers/routes.cert", 0);
}

Test(cli_keys, root_is_not_led_elsewhere_by_a_link_of_the_folders_owner)
{
    char elsewhere[64], at[80];

    if (getuid())
        cr_skip_test("only root can write for others");
    snprintf(elsewhere, sizeof(elsewhere), "%s/root", dir);
    snprintf(at, sizeof(at), "%s/peers", elsewhere);
    cr_assert_eq(mkdir(elsewhere, 0755), 0);
    cr_assert_eq(chown(keys, SERVICE, SERVICE), 0);
    cr_assert_eq(symlink(elsewhere, in_keys("routes")), 0);
    cr_assert_neq(make(2, "routes", "gateway"), 0);
    cr_expect_neq(access(at, F_OK), 0);
}

/* Where it stands in a folder of somebody else, that one may put a link there at any time. */
Test(cli_keys, root_is_not_led_elsewhere_by_a_link_in_place_of_the_folder)
{
    char elsewhere[64], at[80];

    if (getuid())
        cr_skip_test("only root can write for others");
    snprintf(elsewhere, sizeof(elsewhere), "%s/root", dir);
    snprintf(at, sizeof(at), "%s/routes", elsewhere);
    cr_assert_eq(mkdir(elsewhere, 0755), 0);
    cr_assert_eq(chown(dir, SERVICE, SERVICE), 0);
    cr_assert_eq(rmdir(keys), 0);
    cr_assert_eq(symlink(elsewhere, keys), 0);
    cr_assert_neq(make(2, "routes", "gateway"), 0);
    cr_expect_neq(access(at, F_OK), 0);
}

Test(cli_keys, a_folder_that_is_missing_is_made_by_the_owner_of_the_one_above)
{
    char *names[] = {(char *)"routes"}, place[80], is[64];

    if (getuid())
        cr_skip_test("only root can write for others");
    cr_assert_eq(chown(keys, SERVICE, SERVICE), 0);
    snprintf(place, sizeof(place), "%s/more/of/it//", keys);
    cr_assert_eq(keys_make(place, 1, names), 0);
    cr_assert_eq(chdir(dir), 0);
    cr_assert_eq(keys_make("keys/more/of/another", 1, names), 0);
    cr_assert_not_null(getcwd(is, sizeof(is)));
    cr_expect_str_eq(is, dir, "it is where it was");
    cr_assert_eq(seteuid(0), 0);
    expect_owner("more", SERVICE);
    expect_owner("more/of/it/routes/self.cert_secret", SERVICE);
    expect_owner("more/of/another/routes/peers", SERVICE);
}

Test(cli_keys, a_key_that_nobody_may_read_is_not_one_that_is_missing)
{
    if (getuid())
        cr_skip_test("only root can keep files from others");
    cr_assert_eq(make(2, "routes", "gateway"), 0);
    cr_assert_eq(chmod(in_keys("routes"), 0755), 0);
    cr_assert_eq(seteuid(NOBODY), 0);
    cr_assert_null(bus_connect(ZMQ_DEALER, "inproc://nobody", in_keys("routes"), "gateway"));
    cr_expect_not_null(strstr(fault_text(), "cannot be read: Permission denied"), "%s",
                       fault_text());
}

Test(cli_keys, a_file_without_a_key_says_so)
{
    int fd;

    cr_assert_eq(make(2, "routes", "gateway"), 0);
    fd = open(in_keys("routes/peers/gateway.cert"), O_WRONLY | O_TRUNC);
    cr_assert_geq(fd, 0);
    close(fd);
    cr_assert_null(bus_connect(ZMQ_DEALER, "inproc://nobody", in_keys("routes"), "gateway"));
    cr_expect_not_null(strstr(fault_text(), "holds no CURVE key"), "%s", fault_text());
}

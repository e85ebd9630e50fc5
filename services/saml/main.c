/* postern-saml: judges messages of SAML identity providers. Binds: RPC. It has no database and
 * keeps nothing, and reads no XML itself: each message is read by a child of postern-xml, in a
 * sandbox. Must never connect anywhere, or hold a key of an account. */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/files.h"
#include "common/bus/reactor.h"
#include "common/schema/service_row.h"
#include "services/saml/calls.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static const setting_t settings[] = {
    {"rpc", SETTING_STR, NULL, 0, 0, "endpoint of this service's requests"},
    {"curve-dir", SETTING_STR, "", 0, 0, "CURVE keys; needed for tcp:// endpoints"},
    {"readers", SETTING_INT, "4", 1, 32, "messages that are read at once, each by a process"},
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

typedef struct saml {
    const config_t *config;
    calls_t *calls;
    char program[PATH_MAX]; /* postern-xml */
} saml_t;

/* postern-xml lies beside this program. */
static int find_program(saml_t *self)
{
    static const char name[] = "postern-xml";
    ssize_t len = readlink("/proc/self/exe", self->program, sizeof(self->program) - sizeof(name));
    char *slash;

    if (len < 0)
        return fault(-errno, "find this program's folder");
    self->program[len] = '\0';
    slash = strrchr(self->program, '/');
    if (!slash)
        return fault(-ENOENT, "find this program's folder");
    memcpy(slash + 1, name, sizeof(name));
    return 0;
}

static int saml_start(void *context, zloop_t *loop, const config_t *config)
{
    saml_t *self = context;
    int r = find_program(self);

    self->config = config;
    return r ? r : calls_new(&self->calls, loop, config, self->program);
}

static void saml_describe(void *context, char *out, size_t size)
{
    const saml_t *self = context;

    snprintf(out, size, "rpc=%s readers=%ld", config_str(self->config, "rpc"),
             config_int(self->config, "readers"));
}

static void saml_drain(void *context)
{
    saml_t *self = context;

    calls_destroy(&self->calls);
}

static size_t saml_metrics(void *context, char *out, size_t size)
{
    const saml_t *self = context;

    return calls_metrics(self->calls, out, size);
}

static bool saml_is_ready(void *context, char *why, size_t size)
{
    const saml_t *self = context;

    return calls_are_served(self->calls, why, size);
}

int main(int argc, char **argv)
{
    const service_row_t *row = service_row(SERVICE_saml);
    saml_t self = {0};
    const reactor_spec_t spec = {
        .name = row->name,
        .about = row->about,
        .settings = (const setting_t *const[]){settings, NULL},
        .files = FILES_SERVICE,
        .start = saml_start,
        .describe = saml_describe,
        .drain = saml_drain,
        .metrics = saml_metrics,
        .is_ready = saml_is_ready,
    };

    return reactor_main(&spec, &self, argc, argv);
}

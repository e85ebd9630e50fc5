#include "common/schema/service_row.h"

#include <assert.h>
#include <string.h>

/* The words of the table. */
enum {
    NO_RPC,
    RPC,
    INSIDE,
    NO_DATABASE = false,
    DATABASE = true,
    NO_CONFIG_LOG = false,
    CONFIG_LOG = true
};

static const service_row_t rows[] = {
#define SERVICE(role, name, requests, database, config_log, about)                                 \
    {#name, "postern-" #name ": " about, requests != NO_RPC, requests == RPC, database, config_log},
#include "proto/services.def"
};

const service_row_t *service_row(service_id_t id)
{
    assert(id < SERVICES);
    return &rows[id];
}

service_id_t service_find(const char *name)
{
    int i = 0;

    while (i < SERVICES && strcmp(rows[i].name, name))
        i++;
    return (service_id_t)i;
}

/* The services, as proto/services.def has them. Tables only. */
#pragma once

#include <stdbool.h>

typedef enum service_id {
#define SERVICE(role, name, requests, database, config_log, about) SERVICE_##name,
#include "proto/services.def"
    SERVICES
} service_id_t;

typedef struct service_row {
    const char *name;    /* folder, log tag, role, and schema where it has one */
    const char *about;   /* what it is, for --help */
    bool has_requests;   /* a socket <name>.rpc of proto/sockets.def */
    bool is_of_gateway;  /* the gateway sends requests there */
    bool has_database;   /* a schema of that name */
    bool has_config_log; /* its changes go to the edges */
} service_row_t;

/* The row of a service. */
const service_row_t *service_row(service_id_t id);

/* The service of that name; SERVICES: there is none. */
service_id_t service_find(const char *name);

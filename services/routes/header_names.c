#include "services/routes/header_names.h"

#include <string.h>
#include <strings.h>

static const char *const of_connection[] = {
    "connection", "content-length", "transfer-encoding", "upgrade",         "te",
    "trailer",    "keep-alive",     "http2-settings",    "proxy-connection"};

static const char *const of_edge[] = {"postern-", "x-postern-"};

const char *header_name_refusal(const char *name)
{
    for (size_t i = 0; i < sizeof(of_connection) / sizeof(*of_connection); i++)
        if (!strcasecmp(name, of_connection[i]))
            return "belongs to the connection";
    for (size_t i = 0; i < sizeof(of_edge) / sizeof(*of_edge); i++)
        if (!strncasecmp(name, of_edge[i], strlen(of_edge[i])))
            return "is set by the edge alone";
    return NULL;
}

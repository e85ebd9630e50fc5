#include "services/edge/worker/edge_conf.h"

static edge_conf_t  *in_use;


edge_conf_t *
edge_conf(void)
{
    return in_use;
}


void
edge_conf_use(edge_conf_t *conf)
{
    in_use = conf;
}

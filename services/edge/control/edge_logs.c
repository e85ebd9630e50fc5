#include "services/edge/control/edge_logs.h"
#include "services/edge/control/edge_config_log.h"
#include "services/edge/control/edge_session_log.h"


const edge_log_row_t *
edge_log(edge_log_t log)
{
    return log == EDGE_LOG_CONFIG ? edge_config_log() : edge_session_log();
}

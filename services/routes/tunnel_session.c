/* tunnel_session: an agent that is connected. */
#include "common/resource/kind_rules.h"
#include "services/routes/rules.h"

/* Commands to agents: agents cannot connect to this server yet, so none is carried out. */
static int tunnel_session_command(crud_t *crud, const json_t *row, const char *name,
                                  problem_t *problem)
{
    (void)crud;
    return problem_add(
        problem, ERR_AGENT_OP, "id",
        "the agent of %s cannot be told to %s: no agent can connect to this server yet",
        json_string_value(json_object_get(row, "id")), name);
}

KIND_RULES(tunnel_session, .command = tunnel_session_command);

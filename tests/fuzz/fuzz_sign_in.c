/* What browsers bring to a sign-in: a target leads to a path of the same host or to the root, a state
 * names a route and a flow, and nothing opens that was not sealed here. */
#include "services/identity/sign_in_state.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static secret_key_t *a_key(void)
{
    char folder[] = "/tmp/postern-fuzz-XXXXXX", file[64];
    secret_key_t *key;

    if (!mkdtemp(folder))
        abort();
    snprintf(file, sizeof(file), "%s/key", folder);
    if (secret_key_load(&key, file))
        abort();
    unlink(file);
    rmdir(folder);
    return key;
}

/* As browsers read a Location (WHATWG URL): tabs and line ends are nothing, a backslash is a slash,
 * and two slashes at the beginning are another host's, also once dots are resolved. */
static void judge_target(const char *target)
{
    if (*target != '/' || target[1] == '/' || target[1] == '\\'
        || strlen(target) > WORDS_TARGET_MAX)
        abort();
    for (const char *at = target; *at; at++)
        if (*at <= ' ' || *at == '\\' || *at == 0x7f || (unsigned char)*at >= 0x80)
            abort();
    if (!strncmp(target, "/.//", 4) || !strncmp(target, "/..//", 5)
        || !strncmp(target, "/auth/", 6))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static secret_key_t *key;
    char route[ID_MAX], state[WORDS_STATE_LEN + 1], *text = malloc(size + 1);
    ticket_t ticket;
    flow_t flow;
    json_t *agent;

    if (!key)
        key = a_key();
    memcpy(text, data, size);
    text[size] = '\0';
    judge_target(words_target(text));
    if (words_is_host(text) && strpbrk(text, "/\\@?# \t\r\n%"))
        abort();
    if (words_split_state(text, route, state) && strlen(route) + strlen(state) + 1 != strlen(text))
        abort();
    if (!ticket_open(key, text, 1, &ticket)
        || !flow_open(key, text, 1, "edghtsrt_1", "abcdefghijklmnopqrstuv", &flow))
        abort();
    agent = words_agent(text);
    if (!agent || json_string_length(agent) > WORDS_AGENT_MAX)
        abort();
    json_decref(agent);
    free(text);
    return 0;
}

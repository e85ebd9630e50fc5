/* IP policies and their rules, as entries of the config log bring them, and whom several of them
 * admit together. Each rule is an entry of its own: a change of one costs a walk of its policy's
 * networks, whatever the number of rules, and no route is touched. No nginx in here. */
#pragma once

#include "services/edge/table/networks.h"
#include "services/edge/table/table.h"

/* A policy is there while its entry or a rule of it is. */
typedef struct policy {
    char *id;
    networks_t networks;
    size_t rules;    /* that belong to it */
    unsigned unread; /* of those, what cannot be applied: nobody knows whom they deny */
    bool present;    /* an entry came; else only its rules did */
    bool refused;    /* its entry cannot be applied */
} policy_t;

typedef struct rule {
    policy_t *policy;
    network_t network;
    bool deny;
    bool refused; /* its entry cannot be applied; counted in the policy's unread */
    bool placed;  /* among the policy's networks */
} rule_t;

/* What a route's ip_restriction names: policies by their ids, which come, change and go without the
 * route. */
typedef struct policy_names {
    uint64_t number; /* no other has it, nor will; 0: what they say is not kept (table_admits) */
    size_t count;
    char *ids[];
} policy_names_t;

enum { POLICY_NAMES_MAX = 100 };

/* What module.h calls parse and free, for a document {ip_policy_ids}: policy_names_t of 1 to
 * POLICY_NAMES_MAX ids. */
void *policy_names_parse(const msgpack_object *document, bool *bad);
void policy_names_free(void *config);

/* What module.h calls entries: the ids, where there are at most POLICY_ENTRIES_MAX of them, else
 * POLICY_ANY, which every change of a policy or a rule names beside the policy. */
enum { POLICY_ENTRIES_MAX = 2 };
#define POLICY_ANY "ip_policy"
unsigned policy_names_entries(const void *config, const char **ids);

typedef enum admission {
    ADMISSION_ALLOWED, /* a rule of the policies allows the address, and none denies it */
    ADMISSION_DENIED,  /* a rule denies it, or none allows it: all policies may be empty */
    ADMISSION_UNKNOWN  /* a policy is not there, or it or a rule of it cannot be applied */
} admission_t;

/* Of a connection from this address, by the rules of all policies that are named, united.
 * *ret_policy: the id of the one that denied it, or of which nothing is known, as long as the names
 * are there; NULL: there is none. Verdicts are kept, a few thousand, until a policy or a rule of
 * the table changes: a client that asks again costs no walks. */
admission_t table_admits(const table_t *self, const policy_names_t *names,
                         const struct sockaddr *address, const char **ret_policy);

/* The id of the policy that the rule with this id (len bytes) belongs to, as long as the rule does
 * not change; NULL: there is no such rule. */
const char *table_policy_of(const table_t *self, const char *rule, size_t len);

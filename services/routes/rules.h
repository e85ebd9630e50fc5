/* Functions that the rules of this service's kinds share. */
#pragma once

#include "common/base/config.h"
#include "common/resource/crud.h"

/* hostports.c: check the hostports of an edge. tcp: they need reserved addresses, else reserved
 * domains. */
int hostports_check(crud_t *crud, const json_t *document, bool tcp, json_t *references,
                    problem_t *problem);

/* What the hostport is reserved as. *ret_id: id of the domain or address, a new reference, or NULL.
 * *ret_other: it is reserved as the other kind, which makes a better error message. 0 | fault. */
int hostport_reserved(crud_t *crud, const char *hostport, bool tcp, json_t **ret_id,
                      bool *ret_other);

/* names.c: claim a name, a host or a wildcard, for the object owner_id in the request's account,
 * inside a transaction. The claim ends with the object. 0 | ERR_TAKEN_BY_OTHER_ACCOUNT | fault. */
int name_claim(crud_t *crud, const char *owner_id, const char *name, const char *path,
               problem_t *problem);

/* Is it the host of the API or of the sign-in endpoints? No account can have these, not even under
 * a wildcard. */
bool name_is_own(const char *host);

/* Base URL of the sign-in endpoints, without a slash at its end, and its host; once, before
 * requests. */
void names_setup(const config_t *config);
const char *sign_in_url(void);
const char *sign_in_host(void);

/* endpoint.c: an edge cannot have a hostport that pooled endpoints have. Locks the hostport until
 * the transaction ends. 0 | fault. */
int endpoint_check_pool(crud_t *crud, const char *hostport, const char *path, problem_t *problem);

/* https_edge_route.c. True: the request makes a key pair for the first saml of a route, which takes
 * long. */
bool https_edge_route_is_slow(const char *verb, const void *body, size_t len);

/* oauth_application.c: read for which identity providers the operator has an application; once,
 * before requests. */
void oauth_applications_setup(const config_t *config);

/* Why a route cannot use an application of the operator's at this provider, as the end of "the
 * provider ..."; NULL: it can. Lives until the next call on this thread. */
const char *oauth_application_refusal(const char *provider);

/* https_edge_route.c: publish anew the routes whose sign-in modules an older version published, or
 * one with another key. *ret_revision and result as of ip_policy_publish_missing. */
int sign_in_publish_missing(crud_t *crud, int64_t *ret_revision);
/* The key that sign-in modules are sealed with for postern-identity: setting sign-in-key, or the
 * master key. Once, before requests. 0 | fault. */
int sign_in_key_setup(const crud_t *crud, const config_t *config);

/* saml_renewal.c: one pass over the certificates of saml: those that end soon get next ones, and a
 * line in the log. *ret_revision: of the last change that this made; 0: none. 0 | fault. */
int saml_renewal_pass(crud_t *crud, int64_t *ret_revision);

/* ip_restriction.c: ip_restriction.admit {ip} -> {}: may this address use the API for the
 * request's account? */
int on_ip_restriction_admit(crud_t *crud, const request_t *request, reply_t *reply);

/* sign_in_gone.c: sign_in_module.gone {places: ["route module made_id prefix host"]} -> {gone:
 * [n], revisions: [n]}: those, by their numbers, of which there is no such module any more, none
 * whose cookies have the prefix, or not that host; and the revision of each one's module. 0 |
 * ERR_INVALID_FIELD | ERR_MAINTENANCE: this database may not have heard of all | fault. */
int on_sign_in_module_gone(crud_t *crud, const request_t *request, reply_t *reply);

/* What edges get of a restriction: kind_rules_t.publish. */
int ip_restriction_publish(crud_t *crud, const json_t *row, json_t **ret_document);

/* ip_policy.c: publish to edges the IP policies, rules and restrictions of endpoints that an older
 * version, which publishes none, has written. *ret_revision: of the last change that this made;
 * 0: none. 0 | fault. */
int ip_policy_publish_missing(crud_t *crud, int64_t *ret_revision);

/* backend.c: the same of failover backends. */
int failover_backend_publish_missing(crud_t *crud, int64_t *ret_revision);

/* reserved_addr.c: read the settings. 0 | fault. */
int reserved_addr_setup(const config_t *config);

/* backend.c: read the settings. 0 | fault. */
int backend_setup(const config_t *config);

/* reserved_domain.c; reserved_domain.renew {} -> {renewed}. */
int on_reserved_domain_renew(crud_t *crud, const request_t *request, reply_t *reply);
int reserved_domain_publish(crud_t *crud, const json_t *row, json_t **ret_document);

/* Issue a certificate of the local authority for the document's domain, into its columns. 0 |
 * fault. */
int reserved_domain_issue(crud_t *crud, json_t *document);

/* api_host.c: the API's own host name; "" where it has none. */
const char *api_host(void);
/* Reserve the host names of the API and of sign-in with their certificates; also called to read the
 * files again. 0 | fault. */
int api_host_setup(crud_t *crud, const config_t *config);
int api_host_refresh(crud_t *crud, int64_t *ret_revision);

/* Make the local authority if there is none, write its certificate to the file of setting ca-file,
 * and renew the certificates that are due. 0 | fault. */
int local_authority_setup(crud_t *crud, const config_t *config);

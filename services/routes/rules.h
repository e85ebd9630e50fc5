/* Rules of the kinds that the route service owns, beyond what their tables say. */
#pragma once

#include "common/base/config.h"
#include "common/resource/crud.h"

/* hostports.c: the hostports of an edge; tcp: of reserved addresses, else of reserved domains. */
int hostports_check(crud_t *crud, const json_t *document, bool tcp, json_t *references,
                    problem_t *problem);

/* What the hostport is reserved as: *ret_id is the domain's or address's id, a new reference, or NULL. *ret_other: it is of
 * the other kind, which only tells a better error. 0 | fault. */
int hostport_reserved(crud_t *crud, const char *hostport, bool tcp, json_t **ret_id,
                      bool *ret_other);

/* names.c: the object takes a name in the request's account: a host, or a wildcard. Inside a transaction; the claim goes with the
 * object. 0 | ERR_TAKEN_BY_OTHER_ACCOUNT | fault. */
int name_claim(crud_t *crud, const char *owner_id, const char *name, const char *path,
               problem_t *problem);

/* Is it Postern's own, the API's or that of the sign-in endpoints? No account has it, not even whoever has a wildcard over it. */
bool name_is_own(const crud_t *crud, const char *host);

/* endpoint.c */
int endpoint_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                   problem_t *problem);
int endpoint_publish(crud_t *crud, const json_t *row, json_t **ret_document);
int endpoint_retire(crud_t *crud, const json_t *row, problem_t *problem);

/* An edge cannot have a hostport that endpoints pool; until the transaction ends nobody else decides whose it is. 0 | fault. */
int endpoint_check_pool(crud_t *crud, const char *hostport, const char *path, problem_t *problem);

/* https_edge.c */
int https_edge_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                     problem_t *problem);
int https_edge_publish(crud_t *crud, const json_t *row, json_t **ret_document);

/* https_edge_route.c */
int https_edge_route_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                           problem_t *problem);
/* A key is made for the first saml of a route. */
bool https_edge_route_is_slow(const char *verb, const void *body, size_t len);
int https_edge_route_publish(crud_t *crud, const json_t *row, json_t **ret_document);

/* tunnel_session.c */
int tunnel_session_command(crud_t *crud, const json_t *row, const char *name, problem_t *problem);

/* tcp_tls_edge.c */
int tcp_edge_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                   problem_t *problem);
int tls_edge_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                   problem_t *problem);

/* ip_restriction.c */
int ip_restriction_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                         problem_t *problem);
int ip_policy_rule_retire(crud_t *crud, const json_t *row, problem_t *problem);
/* ip_restriction.admit {ip} -> {}: may this address use the API for the account? */
int on_reserved_domain_renew(crud_t *crud, const request_t *request, reply_t *reply);
int on_ip_restriction_admit(crud_t *crud, const request_t *request, reply_t *reply);

/* reserved_addr.c */
int reserved_addr_setup(const config_t *config);
int reserved_addr_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                        problem_t *problem);

/* certificate_authority.c */
int certificate_authority_check(crud_t *crud, json_t *document, const json_t *old,
                                json_t *references, problem_t *problem);

/* backend.c */
int backend_setup(const config_t *config);
int static_backend_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                         problem_t *problem);
int static_backend_publish(crud_t *crud, const json_t *row, json_t **ret_document);
int http_response_backend_check(crud_t *crud, json_t *document, const json_t *old,
                                json_t *references, problem_t *problem);
int http_response_backend_publish(crud_t *crud, const json_t *row, json_t **ret_document);
int weighted_backend_publish(crud_t *crud, const json_t *row, json_t **ret_document);

/* reserved_domain.c */
int reserved_domain_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                          problem_t *problem);
int reserved_domain_publish(crud_t *crud, const json_t *row, json_t **ret_document);

/* Put a fresh certificate of the local authority for document's domain into its columns. 0 | fault. */
int reserved_domain_issue(crud_t *crud, json_t *document);

/* api_host.c: the API's own name, "" where it has none. */
const char *api_host(void);
/* Reserve the name that the settings say, with its certificate; read again what may be new. 0 | fault. */
int api_host_setup(crud_t *crud, const config_t *config);
int api_host_refresh(crud_t *crud, int64_t *ret_revision);

/* Make the local authority when there is none, write its certificate to the setting ca-file, and
 * issue anew what is about to expire. 0 | fault. */
int local_authority_setup(crud_t *crud, const config_t *config);

/* tls_certificate.c */
int tls_certificate_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                          problem_t *problem);
int tls_certificate_publish(crud_t *crud, const json_t *row, json_t **ret_document);

/* agent_ingress.c */
int agent_ingress_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                        problem_t *problem);

/* ssh_certificate_authority, ssh_host_certificate and ssh_user_certificate: their keys and
 * signatures are made once, at creation. */
#pragma once

#include "common/resource/crud.h"

bool ssh_authority_is_slow(const char *verb, const void *body, size_t len);
int ssh_authority_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                        problem_t *problem);
int ssh_host_certificate_check(crud_t *crud, json_t *document, const json_t *old,
                               json_t *references, problem_t *problem);
int ssh_user_certificate_check(crud_t *crud, json_t *document, const json_t *old,
                               json_t *references, problem_t *problem);

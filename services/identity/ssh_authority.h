/* ssh_certificate_authority, ssh_host_certificate and ssh_user_certificate: their keys and
 * signatures are made once, at creation. */
#pragma once

#include "common/resource/crud.h"

/* Making an RSA authority takes seconds: does this call do that? body: the document as msgpack. */
bool ssh_authority_is_slow(const char *verb, const void *body, size_t len);

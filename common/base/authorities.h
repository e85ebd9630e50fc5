/* A file of authorities that a setting names: judged when its program starts, because one that
 * cannot be read later would look like a peer whose certificate is wrong. */
#pragma once

#include <stddef.h>

enum { AUTHORITIES_FILE_MAX = 64 << 20 /* bytes */ };

/* Is the file one of certificates in PEM form, at least one, that this process can read? 0 |
 * -EINVAL: why is what is wrong, to follow the file's name: "cannot be read: ...". */
int authorities_check(const char *path, char *why, size_t size);

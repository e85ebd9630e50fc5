/* What a User-Agent header says of browser, operating system and device, by the patterns of
 * uap-core (Debian's package uap-core: regexes.yaml, and what it means: specification.md). Nothing
 * here is a proof of anything: a client sends what it likes. No globals: a program may have several
 * sets of patterns, and any thread may look up at any time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define DEVICE_PATTERNS "/usr/share/uap-core/regexes.yaml" /* where Debian puts them */

enum {
    DEVICE_AGENT_MAX = 512,     /* bytes of the header that are looked at: its beginning */
    DEVICE_NAME_MAX = 64,       /* bytes of a name, with its end */
    DEVICE_VERSION_MAX = 32,    /* bytes of a version, with its end */
    DEVICE_FILE_MAX = 4 << 20,  /* bytes of a file of patterns */
    DEVICE_PATTERNS_MAX = 4096, /* patterns of each of the three kinds */
};

typedef struct device_patterns device_patterns_t;

/* Texts are UTF-8 if the header is, and are cut where they are longer than they may be. "": not
 * known. */
typedef struct device {
    char browser[DEVICE_NAME_MAX], browser_version[DEVICE_VERSION_MAX];
    char os[DEVICE_NAME_MAX], os_version[DEVICE_VERSION_MAX];
    char family[DEVICE_NAME_MAX]; /* uap-core's name of the device, such as "iPhone" or "Spider" */
    const char *type;             /* "desktop" | "mobile" | "tablet" | "bot" | "other" */
} device_t;

/* Read the patterns of a file. 0 | -errno of the file | -EFBIG | -EINVAL: it is no such file |
 * -ENOMEM; why is what to log then. Takes some 100 ms. */
int device_patterns_load(device_patterns_t **ret_patterns, const char *path, char *why,
                         size_t why_size);

/* The same of text, which is not kept. */
int device_patterns_parse(device_patterns_t **ret_patterns, const char *text, size_t len, char *why,
                          size_t why_size);

/* NULL is fine. */
void device_patterns_destroy(device_patterns_t **self_p);

/* What the header says. patterns NULL: nothing is known, and the type is "other"; so is it where
 * no pattern matches. Time is linear in DEVICE_AGENT_MAX, whatever the header is. */
void device_find(const device_patterns_t *patterns, const char *agent, size_t len,
                 device_t *ret_device);

/* The type that such a device has: by its family, else by its system, else by a word of the header
 * (agent: the part that is looked at). */
const char *device_type(const char *family, const char *os, const char *agent, size_t len);

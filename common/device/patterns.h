/* The patterns as they are in memory, between the files of this folder: patterns.c reads them,
 * device.c looks up by them. */
#pragma once

#include "common/codec/regex_list.h"
#include "common/device/device.h"

typedef enum device_section {
    DEVICE_BROWSERS,
    DEVICE_SYSTEMS,
    DEVICE_DEVICES,
    DEVICE_SECTIONS
} device_section_t;

enum { DEVICE_PARTS = 5 /* the name, and up to four numbers of its version */ };

typedef struct device_row {
    char *pattern;
    bool ignores_case;
    /* in place of what the pattern's group matched, with $1 to $9 for groups; NULL: the group */
    char *instead[DEVICE_PARTS];
} device_row_t;

typedef struct device_rows {
    device_row_t *rows;
    size_t count, room;
    regex_list_t *list;
} device_rows_t;

struct device_patterns {
    device_rows_t sections[DEVICE_SECTIONS];
};

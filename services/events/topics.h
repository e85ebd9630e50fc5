/* Numbers of events for subscribers: each event type counts its own, without gaps. Only types that
 * the tables in proto/ know are numbered, so that nobody on the bus can make rows of arbitrary
 * names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOPIC_MAX = 96, TOPICS_MAX = 256 };
enum { NUMBER_NOT_PUBLISHED = 0, NUMBER_NONE = -1 }; /* NONE: published without a number */

typedef struct topic {
    char name[TOPIC_MAX + 1];
    int64_t last;
} topic_t;

/* The topics of one job. */
typedef struct topics {
    topic_t all[TOPICS_MAX];
    int n;
} topics_t;

/* The topic of that name, added when it is new. NULL: not an event type that is numbered. */
topic_t *topics_find(topics_t *self, const char *name, size_t len);

/* Add the topics of all events of a body that batch_check accepted. */
void topics_gather(topics_t *self, const unsigned char *body, size_t len);

/* Give each event of the body the next number of its topic, except where numbers[i] is
 * NUMBER_NOT_PUBLISHED. */
void topics_number(topics_t *self, const unsigned char *body, size_t len, int64_t *numbers);

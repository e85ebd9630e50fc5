/* Numbers of events for subscribers: each event type counts its own, without gaps. Only types that proto/events.def and
 * proto/kinds.def know are counted, so that nobody on the bus makes a row of whatever comes to mind. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOPIC_MAX = 96, TOPICS_MAX = 256 };
enum { NUMBER_NOT_PUBLISHED = 0, NUMBER_NONE = -1 }; /* NONE: published, but not numbered */

typedef struct topic {
    char name[TOPIC_MAX + 1];
    int64_t last;
} topic_t;

/* Those of one job. */
typedef struct topics {
    topic_t all[TOPICS_MAX];
    int n;
} topics_t;

/* The topic of that name, which is added when it is not there yet. NULL: no event type that is numbered. */
topic_t *topics_find(topics_t *self, const char *name, size_t len);

/* Add the topics of all events of a batch's body, which batch_check has found sound. */
void topics_gather(topics_t *self, const unsigned char *body, size_t len);

/* The next number of its topic for each event of the body for which numbers[i] is not NUMBER_NOT_PUBLISHED. */
void topics_number(topics_t *self, const unsigned char *body, size_t len, int64_t *numbers);

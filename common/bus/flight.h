/* Requests in progress, to suppress duplicates. A client without a reply repeats its request with
 * the same id: the work is not done twice, and one reply serves both. It is sent to the connection
 * of the newest repetition, since the first one may be closed. Used by the reactor's thread
 * alone. */
#pragma once

#include <czmq.h>

enum { FLIGHT_KEY_SIZE = 136, FLIGHT_ID_SIZE = 64, FLIGHT_ACCOUNT_SIZE = 64 };

typedef struct flights flights_t;

/* For at most max requests. NULL: no memory. */
flights_t *flights_new(size_t max);
void flights_destroy(flights_t **self_p);

/* Make the key of a message (frames: sender, verb, header, body) from its verb and id; account
 * is whom the sender says it speaks for, "" where it does not say. False: the message has no
 * key. */
bool flight_key(zmsg_t *msg, char key[FLIGHT_KEY_SIZE], char account[FLIGHT_ACCOUNT_SIZE]);

/* The message's id alone, for a reply, without looking at the body. False: the message has none. */
bool flight_id(zmsg_t *msg, char id[FLIGHT_ID_SIZE]);

/* Is this request in progress? Then its reply will go to sender. */
bool flights_again(flights_t *self, const char *key, zframe_t *sender);

/* Work on the request begins. Beyond max requests it is not noted, and a repetition is executed. */
void flights_begin(flights_t *self, const char *key);

/* The request is answered, or dropped. Returns the identity to which the reply goes, owned by the
 * caller; NULL: it was not repeated, so the reply goes to its first sender. */
zframe_t *flights_end(flights_t *self, const char *key);

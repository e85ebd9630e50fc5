/* Requests that a service is working on. Who hears nothing for a while asks again under the same
 * id: that is no reason to work twice, for the first's answer answers both. It goes to where the
 * newest came from: the connection of the first may be gone. Used by the reactor alone. */
#pragma once

#include <czmq.h>

enum { FLIGHT_KEY_SIZE = 136, FLIGHT_ID_SIZE = 64 };

typedef struct flights flights_t;

/* Of max at most. NULL: no memory. */
flights_t *flights_new(size_t max);
void flights_destroy(flights_t **self_p);

/* A message as it came: sender, verb, header, body. What it is known under: verb and id. False:
 * it does not say. */
bool flight_key(zmsg_t *msg, char key[FLIGHT_KEY_SIZE]);

/* What its answer is to name: the id alone. Its body is not looked at. False: it does not say. */
bool flight_id(zmsg_t *msg, char id[FLIGHT_ID_SIZE]);

/* It is being worked on: its answer will go to sender. */
bool flights_again(flights_t *self, const char *key, zframe_t *sender);

/* Work on it begins. Beyond max it is not noted, and worked on twice if it comes twice. */
void flights_begin(flights_t *self, const char *key);

/* It is answered, or never will be: who is to get the answer if it came again, the caller's;
 * NULL: who sent it first. */
zframe_t *flights_end(flights_t *self, const char *key);

/* CURVE keys for the peers of the bus. */
#pragma once

/* DIR/NAME for every name, a role or role@name (proto/roles.def): a key of its own, which only this user may read, and in peers the
 * public keys of those with whom it has business (proto/sockets.def), and of no others of these names. Keys that are there stay.
 * Says what is wrong. Returns the exit status. */
int keys_make(const char *dir, int count, char **names);

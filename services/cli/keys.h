/* CURVE keys for the peers of the bus. */
#pragma once

/* Make DIR/NAME for every name, a role or role@name (proto/roles.def): a key that only this user
 * may read, and in peers the public keys of those that it may speak to (proto/sockets.def), and of
 * no others of these names. Keys that exist stay, and lists that say so already are not written.
 * Root writes as the owner of the folder: of DIR, or of DIR/NAME where DIR is root's. Prints what
 * is wrong. Returns the exit status. */
int keys_make(const char *dir, int count, char **names);

/* Rotation of logs whose writers only append and keep their files open. */
#pragma once

/* Move the contents of every *.log in dir that is larger than bytes to NAME.1, after NAME.1 was
 * renamed to NAME.2, and so on, keeping `old` files. Returns the exit status. */
int rotate_logs(const char *dir, long long bytes, int old);

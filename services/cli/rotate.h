/* Rotation of logs whose writers only append and keep their files open. */
#pragma once

/* Every *.log in dir that is larger than bytes becomes NAME.1, what was NAME.1 becomes NAME.2, and
 * so on up to `old` files. Returns the exit status. */
int rotate_logs(const char *dir, long long bytes, int old);

/* Logs that do not grow without end, under writers that only ever append. */
#pragma once

/* Every *.log in dir that is larger than bytes becomes NAME.1, what was that NAME.2, and so on up to `old` of them. Returns the
 * exit status. */
int rotate_logs(const char *dir, long long bytes, int old);

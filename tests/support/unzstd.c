/* Decodes zstd from standard input to standard output, each part as soon as it is there: what Node does
 * since 22.15, and Debian's zstd only at the end of the input. 1: the last frame has no end. */
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

static int write_all(const char *bytes, size_t len)
{
    while (len) {
        ssize_t n = write(STDOUT_FILENO, bytes, len);

        if (n <= 0)
            return -1;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

int main(void)
{
    static char in[1 << 16], out[1 << 17];
    ZSTD_DCtx *zstd = ZSTD_createDCtx();
    size_t left = 1;
    ssize_t n;

    while ((n = read(STDIN_FILENO, in, sizeof(in))) > 0) {
        ZSTD_inBuffer from = {in, (size_t)n, 0};

        for (int full = 1; from.pos < from.size || full;) {
            ZSTD_outBuffer to = {out, sizeof(out), 0};

            left = ZSTD_decompressStream(zstd, &to, &from);
            full = to.pos == to.size;
            if (ZSTD_isError(left) || write_all(out, to.pos))
                return 1;
        }
    }
    ZSTD_freeDCtx(zstd);
    return left ? 1 : 0;
}

#include "common/base/authorities.h"
#include "common/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int say_fault(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return -EINVAL;
}

/* Certificates up to the first that cannot be read; what is no certificate is passed over. */
static unsigned count_certificates(BIO *bio, bool *ret_bad)
{
    unsigned count = 0;
    unsigned long error;

    ERR_clear_error();
    for (X509 *one; (one = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL)); count++)
        X509_free(one);
    error = ERR_peek_last_error();
    *ret_bad = ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE;
    ERR_clear_error();
    return count;
}

int authorities_check(const char *path, char *why, size_t size)
{
    _cleanup_(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    BIO *file = NULL, *buffered = NULL;
    struct stat st;
    unsigned count;
    bool bad;

    if (fd < 0 || fstat(fd, &st)) {
        snprintf(why, size, "cannot be read: %s", strerror(errno));
        return -EINVAL;
    }
    if (!S_ISREG(st.st_mode))
        return say_fault(why, size, "is no file");
    if (st.st_size > AUTHORITIES_FILE_MAX)
        return say_fault(why, size, "is larger than 64 MiB");
    file = BIO_new_fd(fd, BIO_NOCLOSE);
    buffered = file ? BIO_new(BIO_f_buffer()) : NULL; /* else each byte is a system call */
    if (!buffered) {
        BIO_free(file);
        return say_fault(why, size, "cannot be read: there is no memory for it");
    }
    count = count_certificates(BIO_push(buffered, file), &bad);
    BIO_free_all(buffered);
    if (bad) {
        snprintf(why, size, "has a certificate that cannot be read, behind %u that can", count);
        return -EINVAL;
    }
    return count ? 0 : say_fault(why, size, "holds no certificate in PEM form");
}

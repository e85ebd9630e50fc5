/* Texts of SAML that are made here: XML in canonical form, base64, query strings, signatures. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/saml_internal.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

/* A character that canonical XML (section 2.3) has in another way. */
typedef struct escape {
    char c;
    const char *text;
} escape_t;

static void put_escaped(FILE *out, const char *text, const escape_t *escapes, size_t count)
{
    for (; *text; text++) {
        size_t i = 0;

        while (i < count && escapes[i].c != *text)
            i++;
        if (i < count)
            fputs(escapes[i].text, out);
        else
            fputc(*text, out);
    }
}

void saml_put_xml(FILE *out, const char *text)
{
    static const escape_t escapes[] = {
        {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\r', "&#xD;"}};

    put_escaped(out, text, escapes, LEN(escapes));
}

void saml_put_value(FILE *out, const char *text)
{
    static const escape_t escapes[] = {{'&', "&amp;"},  {'<', "&lt;"},   {'"', "&quot;"},
                                       {'\t', "&#x9;"}, {'\n', "&#xA;"}, {'\r', "&#xD;"}};

    put_escaped(out, text, escapes, LEN(escapes));
}

void saml_put_attribute(FILE *out, const char *name, const char *value)
{
    fprintf(out, " %s=\"", name);
    saml_put_value(out, value);
    fputc('"', out);
}

void saml_put_base64(FILE *out, const void *bytes, size_t len)
{
    _cleanup_(free_mem) unsigned char *text =
        memory_need(malloc(4 * (len / 3 + 1) + 1), "base64 of a SAML message");

    EVP_EncodeBlock(text, bytes, (int)len);
    fputs((const char *)text, out);
}

void saml_put_encoded(FILE *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
            || strchr("-._~", c))
            fputc(c, out);
        else
            fprintf(out, "%%%02X", c);
    }
}

void saml_put_time(FILE *out, int64_t at_s)
{
    time_t at = (time_t)at_s;
    struct tm utc;
    char text[32];

    gmtime_r(&at, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
    fputs(text, out);
}

/* ---- signatures ---- */

static EVP_PKEY *read_key(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    return key;
}

static char *base64_of(const unsigned char *bytes, size_t len)
{
    char *text = memory_need(malloc(4 * (len / 3 + 1) + 1), "a signature");

    EVP_EncodeBlock((unsigned char *)text, bytes, (int)len);
    return text;
}

char *saml_signature(const char *key_pem, const char *text, size_t len)
{
    EVP_PKEY *key = key_pem ? read_key(key_pem) : NULL;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char bytes[1024];
    size_t size = sizeof(bytes);
    char *signature = NULL;

    if (key && ctx && EVP_PKEY_is_a(key, "RSA") && (size_t)EVP_PKEY_get_size(key) <= sizeof(bytes)
        && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1
        && EVP_DigestSign(ctx, bytes, &size, (const unsigned char *)text, len) == 1)
        signature = base64_of(bytes, size);
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    return signature;
}

char *saml_deflate(const char *text, size_t len)
{
    z_stream stream = {.next_in = (Bytef *)text, .avail_in = (uInt)len};
    _cleanup_(free_mem) unsigned char *bytes = NULL;
    uLong most;
    int r;

    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY))
        return NULL;
    most = deflateBound(&stream, (uLong)len);
    bytes = memory_need(malloc(most), "a SAML message");
    stream.next_out = bytes;
    stream.avail_out = (uInt)most;
    r = deflate(&stream, Z_FINISH);
    deflateEnd(&stream);
    return r == Z_STREAM_END ? base64_of(bytes, stream.total_out) : NULL;
}

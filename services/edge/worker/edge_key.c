#include "services/edge/worker/edge_key.h"
#include "services/edge/worker/edge_conf.h"

static u_char  key[crypto_secretbox_KEYBYTES];


ngx_int_t
edge_key_load(ngx_log_t *log)
{
    char          path[NGX_MAX_PATH];
    ngx_fd_t      file;
    ssize_t       n;
    edge_conf_t  *conf = edge_conf();

    ngx_snprintf((u_char *) path, sizeof(path), "%V%Z", &conf->state_key);
    file = ngx_open_file(path, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);
    if (file == NGX_INVALID_FILE) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "postern: cannot open postern_state_key \"%s\": "
                      "make it with 32 random bytes", path);
        return NGX_ERROR;
    }
    n = ngx_read_fd(file, key, sizeof(key));
    ngx_close_file(file);
    if (n != (ssize_t) sizeof(key)) {
        ngx_log_error(NGX_LOG_EMERG, log, 0,
                      "postern: postern_state_key \"%s\" must hold 32 bytes",
                      path);
        return NGX_ERROR;
    }
    return NGX_OK;
}


const u_char *
edge_key(void)
{
    return key;
}


void
edge_key_name(const char *prefix, char *out, size_t size)
{
    u_char  hash[16];
    char    hex[2 * sizeof(hash) + 1];

    crypto_generichash(hash, sizeof(hash), (const u_char *) prefix,
                       ngx_strlen(prefix), key, sizeof(key));
    sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
    ngx_snprintf((u_char *) out, size, "%s%s%Z", prefix, hex);
}


void
edge_key_derive(const char *purpose, u_char *out)
{
    crypto_generichash(out, crypto_secretbox_KEYBYTES, (const u_char *) purpose,
                       ngx_strlen(purpose), key, sizeof(key));
}

#include "services/edge/worker/edge_build.h"
#include "services/edge/worker/edge_conf.h"

#include <elf.h>
#include <link.h>

enum { BUILD_BYTES = 20 };


/* Callback of dl_iterate_phdr: the linker's build id of this module, in hexadecimal. */
static int
find_build(struct dl_phdr_info *info, size_t size, void *out)
{
    size_t                  i;
    const u_char           *at, *end;
    const ElfW(Nhdr)       *note;
    const ElfW(Phdr)       *ph;

    (void) size;
    for (i = 0; i < info->dlpi_phnum; i++) {
        ph = &info->dlpi_phdr[i];
        if (ph->p_type == PT_LOAD
            && (uintptr_t) &ngx_http_postern_module - info->dlpi_addr - ph->p_vaddr
               < ph->p_memsz)
        {
            break;
        }
    }
    if (i == info->dlpi_phnum) {
        return 0;   /* another library */
    }
    for (i = 0; i < info->dlpi_phnum; i++) {
        ph = &info->dlpi_phdr[i];
        if (ph->p_type != PT_NOTE) {
            continue;
        }
        at = (const u_char *) info->dlpi_addr + ph->p_vaddr;
        end = at + ph->p_memsz;
        while (at + sizeof(*note) < end) {
            note = (const ElfW(Nhdr) *) at;
            at += sizeof(*note);
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4
                && ngx_memcmp(at, "GNU", 4) == 0)
            {
                *ngx_hex_dump(out, (u_char *) at + 4,
                              ngx_min(note->n_descsz, BUILD_BYTES)) = '\0';
                return 1;
            }
            at += ngx_align(note->n_namesz, 4) + ngx_align(note->n_descsz, 4);
        }
    }
    return 1;
}


const char *
edge_build_id(void)
{
    static u_char  build[2 * BUILD_BYTES + 1];

    if (build[0] == '\0') {
        dl_iterate_phdr(find_build, build);
    }
    return (char *) build;
}

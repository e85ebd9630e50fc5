/* Files that become part of a program. */
#pragma once

/* Put a file into the program: EMBED(name, "path from the repository root"). */
#define EMBED(symbol, file)                                                                        \
    __asm__(".pushsection .rodata\n" #symbol ":\n.incbin \"" file "\"\n.byte 0\n.popsection\n");   \
    extern const char symbol[]

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Writes the output of lackey (stdin) as a ChampSim trace (stdout), with the struct of ChampSim's
 * own inc/trace_instruction.h. Its tracer needs Intel's Pin, which no package registry has.
 */
#include <cstddef>
#include <cstdio>

#include "trace_instruction.h"

int main()
{
    char line[4096];
    input_instr now{};
    bool any = false;
    while (fgets(line, sizeof line, stdin)) {
        unsigned long long address;
        if (sscanf(line, "I %llx,", &address) == 1) {
            if (any)
                fwrite(&now, sizeof now, 1, stdout);
            now = {};
            now.ip = address;
            any = true;
        } else if (line[0] == ' ' && sscanf(line + 3, "%llx,", &address) == 1) {
            auto put = [&](unsigned long long *list, size_t length) {
                size_t at = 0;
                while (at + 1 < length && list[at])
                    at++;
                list[at] = address;
            };
            if (line[1] != 'S')
                put(now.source_memory, NUM_INSTR_SOURCES);
            if (line[1] != 'L')
                put(now.destination_memory, NUM_INSTR_DESTINATIONS);
        }
    }
    fwrite(&now, sizeof now, 1, stdout);
}

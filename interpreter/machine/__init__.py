"""The machine that runs a program: agents, memory, barriers, copies, TMA, each under the rules of the PTX ISA."""

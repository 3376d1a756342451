// Package program runs the programs of modules. It limits their time, memory, files and output,
// ends all processes that a program has started when the program ends, and isolates programs from
// the rest of the machine as far as the kernel allows.
package program

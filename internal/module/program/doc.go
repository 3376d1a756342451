// Package program runs the programs of modules: bounded in time, memory, files and output, each in a process group
// that ends with it, and as far from the rest of the machine as the kernel allows.
package program

// Package program runs the programs of modules. It limits their time, memory, files and output,
// ends all processes that a program has started when the program ends, and isolates programs from
// the rest of the machine as far as the kernel allows.
//
// The way of a program on Linux. One thread starts it and stays until its end, because the kernel
// kills the program when that thread ends (PDEATHSIG):
//
//	thread   restrict ── start (traced)              letGo ── awaitEnd
//	                          │                         ▲
//	                          ▼                         │
//	caller   group made    enter the control group ─────┴── watchTemp ── await
//	the end  kill the process group ── end the control group ── end orphans by their mark ── reap
//
// restrict sets no_new_privs, Landlock, the user and seccomp. Restrictions that the kernel lacks are
// left out; InForce lists those that hold.
package program

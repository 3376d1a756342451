// Package instruct knows how what an instruction says is done: the event of its action is
// published as its creator might publish it at that moment, once for each firing.
//
// A firing has an id, which is the event's. Whoever decides that an instruction fires stores that
// first, with all that the id is made of, and then has it done: after a crash in between it is done again
// under the same id, and the log takes it once.
package instruct

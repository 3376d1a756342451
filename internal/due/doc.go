// Package due keeps records whose time comes: each is looked at when it is due, and taken further step by step, until
// nothing of it is left to do. What a record says and what a step is, a Kind says.
//
// Every replica watches all records and has their times. What is stored decides, and changes by compare-and-set only: a
// step that loses reads what the other one wrote, and decides again. Whoever's turn it is not waits a few seconds longer
// and then does it, so that a server which dies delays what is due by no more than that. A step that fails is made again,
// later each time.
package due

// Package catalogue knows the event types of every namespace: which there are, what their data
// looks like, what is a summary of it, and which labels they have. It is the only package that
// knows JSON Schema.
//
// A schema is written by one party and the data that it is held against by another, so neither may cost
// more than it is given. A schema refers to nothing but itself (loader), and is small and shallow; so
// is the data that it sees (decode). Regular expressions are RE2 and of a bounded program (engine). What is left
// is a schema that visits one value over and over, through $ref or allOf: every visit is paid for
// out of a budget, what lies before the visitor included, before anything is visited (meter). Where it is used
// up, every visit fails at its door, so that a check ends at once and without a verdict, which is refused.
package catalogue

// Package catalogue holds the event types of every namespace: the schema of their data, the fields
// of their summary, and their labels. It is the only package that uses JSON Schema.
//
// A schema and the data that it is applied to come from different parties, so both are limited. A
// schema refers only to itself (loader), and is small and shallow; so is the data (decode). Regular
// expressions are RE2 with a bounded program (engine). What remains is a schema that visits one
// value over and over, through $ref or allOf: every visit is charged to a budget before anything is
// visited, including the cost of reaching the visitor (meter). When the budget is used up, every
// visit fails immediately, so that validation ends without a verdict, which counts as a refusal.
package catalogue

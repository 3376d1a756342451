// Package catalogue holds the event types of every namespace: the schema of their data, the fields
// of their summary, and their labels. It is the only package that uses JSON Schema.
//
// A schema and the data that it is applied to come from different parties, so both are limited. A
// schema refers only to itself (loader), and is small and shallow; so is the data (decode). Regular
// expressions are RE2 with a bounded program (engine). A schema could still visit the same value
// over and over, through $ref or allOf. So every visit is charged to a budget before it happens,
// including the cost of getting there (meter). When the budget is used up, every visit fails
// immediately. Validation then ends without a verdict, which counts as a refusal.
package catalogue

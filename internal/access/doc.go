// Package access decides who may do what: whether a token is one, what its grant allows, what
// the access lists and labels of namespaces say, and whether an event may leave. The rules are
// pure functions of an index that follows the records; nothing here waits for anything.
//
// Three things have to agree before somebody may do something. The grant has the verb, for
// the paths in question, and it and every grant that it is a part of are neither revoked nor expired. If
// the namespace has an access list, it gives the principal the tier that the verb needs; one
// without is governed by grants alone. And the principal's clearance dominates the label of
// the namespace, and of the event. Of a narrowed grant the last two hold for everybody in
// the chain: whoever acts for somebody never exceeds them (S4-60). Root passes all of it.
package access

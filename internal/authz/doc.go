// Package authz decides about permissions: whether a token is valid, what its grant allows, what
// the access lists and labels of namespaces require, and whether an event may be sent. The rules
// are pure functions of an index that follows the records; nothing here blocks.
//
// Access requires three things. The grant has the verb for the paths in question, and neither it
// nor any grant that it derives from is revoked or expired. If the namespace has an access list,
// the list gives the principal the tier that the verb requires; a namespace without a list is
// governed by grants alone. And the principal's clearance dominates the label of the namespace, and
// that of the event. For a derived grant, the last two apply to every principal in the chain:
// acting on behalf of a principal never exceeds that principal's access (S4-60). Root has full
// access.
package authz

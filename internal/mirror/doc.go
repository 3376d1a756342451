// Package mirror copies namespaces into others: pulled, never pushed, filtered, labelled, with a
// watermark (S3).
//
//	source ──observe──► Next ──► entries, gaps and the new place, in one atomic step
//	                     │
//	                     └──► Stop: the mirror is suspended, with the reason
//
// Next is pure: from what a mirror holds and a page of changes, it decides what the mirror holds then.
// A page comes from the log of a namespace of this server, from another server, or from a bundle.
// What a mirror holds is never published into its namespace.
package mirror

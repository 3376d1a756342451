// Package mirror copies the content of namespaces into other namespaces (S3). A mirror pulls
// changes from its source, filters them, checks their labels, and records its progress as a
// watermark.
//
//	source ──observe──► Next ──► entries, gaps and the new place, in one atomic step
//	                     │
//	                     └──► Stop: the mirror is suspended, with the reason
//
// Next is pure: from the state of a mirror and a page of changes, it decides the next state. A page
// comes from the log of a namespace of this server, from another server, or from a bundle. The
// entries of a mirror are never published into its namespace.
package mirror

// Package bundle is the format in which the changes of a namespace cross an air gap (S3-61 to S3-74):
// a signed bundle as one JSON document or as a directory of files, the keys that sign it, the
// receipt of its importer, and the decision whether a mirror applies it. It has no I/O besides the
// files of a directory.
//
// Both forms have the same [Header] and entries, and the same digest, by which bundles form a chain.
// No entry of a bundle can be read before its signature and all of its content are verified.
package bundle

// Package bundle implements the format in which the changes of a namespace cross an air gap (S3-61
// to S3-74). It has the signed bundle, as one JSON document or as a directory of files, the keys
// that sign bundles, the receipts of importers, and the decision whether a mirror applies a bundle.
// It does no I/O except on the files of a directory.
//
// Both forms have the same [Header] and entries, and the same digest. Each bundle names the digest
// of the previous one, so bundles form a chain. No entry of a bundle can be read before its
// signature and all of its content are verified.
package bundle

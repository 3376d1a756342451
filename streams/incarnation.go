package streams

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"maps"
	"time"
)

// incarnationKey is the key of the incarnation in the metadata of a log's stream, of the stream of
// mirrors, and of restored dead letters.
const incarnationKey = "sluice.incarnation"

// formerKey is the key of the incarnation that a stream had in the backup from which it was restored.
const formerKey = "sluice.restored_from"

// incarnationLength is the length of the texts that rand.Text returns.
const incarnationLength = 26

// Incarnation returns the ID of a log from its stream's name, time of creation and metadata. Two
// logs with the same name have different IDs, because sequences of one mean nothing in the other
// (decision 0046). The log of an earlier release has no ID in its metadata; its ID is derived from
// the name and the time.
func Incarnation(stream string, created time.Time, metadata map[string]string) string {
	sum := sha256.Sum256([]byte(stream + " " + created.UTC().Format(time.RFC3339Nano)))
	return cmp.Or(metadata[incarnationKey], base32.StdEncoding.EncodeToString(sum[:])[:incarnationLength])
}

// GivenIncarnation returns the ID that WithIncarnation gave a stream; "" if it gave none.
func GivenIncarnation(metadata map[string]string) string { return metadata[incarnationKey] }

// FormerIncarnation returns the incarnation that a stream had in the backup from which it was
// restored; "" if it was not restored, or the backup does not name it. All sequences of the backup
// mean the same in both.
func FormerIncarnation(metadata map[string]string) string { return metadata[formerKey] }

// WithIncarnation returns the metadata with a new incarnation, for the stream of a log that is
// being created, or restored from a backup in which it had the incarnation former.
func WithIncarnation(metadata map[string]string, former string) map[string]string {
	all := maps.Clone(metadata)
	if all == nil {
		all = map[string]string{}
	}
	all[incarnationKey] = rand.Text()
	delete(all, formerKey)
	if former != "" {
		all[formerKey] = former
	}
	return all
}

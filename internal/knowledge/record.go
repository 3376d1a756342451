package knowledge

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// done is the state of a record with a result. A job never has this state: once it has a result, it
// no longer exists.
const done sluice.JobState = "done"

// Record is an embedding of an entry, or a comparison of two, with the state of its job. Its
// methods in step.go return a changed copy, which the caller stores by compare-and-set.
type Record struct {
	ID       string `json:"-"` // ID of the job, and the end of the record's subject
	Revision uint64 `json:"-"` // 0: none is stored

	Type        sluice.JobType  `json:"type"`
	Entry       sluice.EntryRef `json:"entry"`
	Model       string          `json:"model,omitempty"` // of an embedding
	Fingerprint string          `json:"fingerprint"`     // of the content of the entry

	Seq        uint64          `json:"seq,omitempty"` // of an own entry's content, in the log
	State      sluice.JobState `json:"state"`
	Generation uint64          `json:"generation"` // number of claims
	Worker     string          `json:"worker,omitempty"`
	Until      time.Time       `json:"lease_until,omitzero"`
	Attempts   int             `json:"attempts,omitempty"` // claims for this content and model
	NotBefore  time.Time       `json:"not_before,omitzero"`
	Error      string          `json:"error,omitempty"`
	At         time.Time       `json:"at"`

	Embedding []byte `json:"embedding,omitempty"`  // float32, little-endian
	Pairs     []Pair `json:"neighbours,omitempty"` // of an own entry: the entries that it is compared with

	Pair       *Pair           `json:"pair,omitempty"`       // of a comparison
	Comparison json.RawMessage `json:"comparison,omitempty"` // as the worker sent it (S3-92)
	Friction   float64         `json:"friction,omitempty"`   // its own
}

// Pair is a neighbour of an own entry at the time of the entry's embedding.
type Pair struct {
	Against    sluice.EntryRef `json:"against"`
	Similarity float64         `json:"similarity"`
	Discount   float64         `json:"discount_factor"` // 1 for an own entry (S3-87, S3-90)
	Label      string          `json:"label,omitempty"` // of an own entry, if it has one of its own
}

// crosses reports whether a pair crosses the boundary of the namespace.
func (p *Pair) crosses() bool { return p.Against.Source == sluice.SourceMirrored }

// embeddingID returns the id of the job that embeds an entry.
func embeddingID(ref sluice.EntryRef) string {
	if ref.Source == sluice.SourceMirrored {
		return streams.MirroredKnowledge(ref.Subscription, ref.ID)
	}
	return streams.LocalKnowledge(ref.ID)
}

// comparisonID returns the id of the job that compares an own entry, with the content of a
// fingerprint, with another entry.
func comparisonID(entry sluice.EntryRef, fingerprint string, against sluice.EntryRef) string {
	sum := sha256.Sum256([]byte(fingerprint + "\x00" + against.Subscription + "\x00" + against.ID))
	return streams.Comparison(entry.ID, hex.EncodeToString(sum[:12]))
}

// embeddingType returns the type of the job that embeds an entry (S3-83).
func embeddingType(ref sluice.EntryRef) sluice.JobType {
	if ref.Source == sluice.SourceMirrored {
		return sluice.JobEmbedMirrored
	}
	return sluice.JobEmbed
}

// Fingerprint returns a hash of the content of an event; "" if it has none. The id, the time and
// the extensions do not count: an event that is published again with equal content keeps its
// embedding.
func Fingerprint(ev *sluice.Event) string {
	if len(ev.Data) == 0 {
		return ""
	}
	h := sha256.New()
	for _, part := range []string{string(ev.Path), ev.Type, ev.Subject, ev.ContentType} {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Write(ev.Data)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// encodeVector returns the stored form of an embedding. The number of elements follows from the
// length of the result.
func encodeVector(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

// decodeVector is the inverse of encodeVector. Bytes after the last whole element are ignored.
func decodeVector(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

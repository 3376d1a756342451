package mirror

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Place is the progress of a mirror. It is stored in the same atomic step as the entries. Slices
// and pointers are replaced as a whole, never changed in place, because copies of a place share
// them.
type Place struct {
	Of          time.Time `json:"of,omitzero"`           // when the mirror was created
	Begun       time.Time `json:"begun,omitzero"`        // when it began with the log; zero: in an older version
	Incarnation string    `json:"incarnation,omitempty"` // of the source's log; "": nothing was read yet
	Watermark   uint64    `json:"watermark"`             // the last sequence that is accounted for (S3-07)
	Tag         string    `json:"tag,omitempty"`         // of the message at Watermark, if known
	SourceSeq   uint64    `json:"source_seq"`            // the source's last sequence
	Live        int       `json:"live"`                  // entries that are no tombstones (S3-11)
	Deleted     int       `json:"deleted,omitempty"`     // entries that became tombstones
	Gaps        int       `json:"gaps,omitempty"`        // ranges that are missing
	SyncedAt    time.Time `json:"synced_at,omitzero"`    // the last success (S3-08)
	CaughtUpAt  time.Time `json:"caught_up_at,omitzero"` // the last success at the end of the source

	Label *sluice.Label `json:"label,omitempty"` // of the source, as of the last page

	Passed []sluice.Hop `json:"passed,omitempty"` // logs whose content the source has in mirrors

	Imports []bundle.Import `json:"imports,omitempty"` // the last bundles that were applied, oldest first
	HeardAt time.Time       `json:"heard_at,omitzero"` // the latest time at which a bundle was exported

	Forks     []sluice.MirrorFork `json:"forks,omitempty"`     // the last bundles that contradict Imports, oldest first
	StaleTold time.Time           `json:"stale_told,omitzero"` // mirror.stale was published for the silence since this time

	Revision uint64    `json:"-"` // of the stored place; 0: none is stored
	stored   time.Time // when it was stored, if by this process
}

// begun identifies a copy by its beginning and the incarnation of the store; 0 if it has not begun.
// A new copy begins when the origin was replaced, or another mirror has the id. A copy that was
// restored from a backup is another one, too: its cursors are assigned again to other changes.
func (p *Place) begun(restored string) uint64 {
	at := p.Begun
	if at.IsZero() {
		at = p.Of
	}
	if at.IsZero() {
		return 0
	}
	nanos := uint64(at.UnixNano())
	if restored == "" {
		return nanos
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(restored), nanos))
	return binary.BigEndian.Uint64(sum[:])
}

// maxImports limits the imports of a place. Of older ones, the place only shows that the watermark
// has passed them.
const maxImports = 64

// maxForks limits the forks of a place.
const maxForks = 16

// forked notes a bundle that contradicts an imported one, and reports whether it is new.
func (p *Place) forked(f sluice.MirrorFork) bool {
	if slices.ContainsFunc(p.Forks, func(known sluice.MirrorFork) bool { return known.Digest == f.Digest }) { // not a secret: of a bundle
		return false
	}
	all := append(slices.Clone(p.Forks), f)
	p.Forks = all[max(0, len(all)-maxForks):]
	return true
}

// heard notes a bundle that was applied completely. An import without a digest only notes the
// export time.
func (p *Place) heard(i bundle.Import, exported time.Time) {
	if i.Digest != "" {
		all := append(slices.Clone(p.Imports), i)
		p.Imports = all[max(0, len(all)-maxImports):]
	}
	if exported.After(p.HeardAt) {
		p.HeardAt = exported
	}
}

// Entry is a mirrored entry of the source, under the id of the original (Change.Key).
type Entry struct {
	Change       sluice.Change `json:"change"`
	MirroredAt   time.Time     `json:"mirrored_at"`
	DeletedSeq   uint64        `json:"deleted_seq,omitempty"`  // of the deletion in the source's log
	TombstonedAt time.Time     `json:"tombstoned_at,omitzero"` // zero: not a tombstone

	Cursor uint64 `json:"-"` // position in the mirror's own order of changes
}

// Tombstone reports whether the source has deleted the entry (S3-57).
func (e *Entry) Tombstone() bool { return !e.TombstonedAt.IsZero() }

// Seq returns the sequence of the last change of the entry in the source's log.
func (e *Entry) Seq() uint64 { return max(e.Change.Event.Seq, e.DeletedSeq) }

// Held is the state of a mirror that a step needs: its place, and the entries with the keys of a
// page, without their data.
type Held struct {
	Place   Place
	Entries map[string]Entry
}

// Commit holds the changes of one step, which are stored all or none.
type Commit struct {
	Place   Place // Revision is the one that it replaces
	Entries []Entry
	Gaps    []sluice.MirrorGap
}

// AppendJSON appends the entry as it is stored. Its data is copied byte for byte.
//
//	{"change":{…},"mirrored_at":"…","deleted_seq":9,"tombstoned_at":"…"}
func (e *Entry) AppendJSON(b []byte) []byte { return e.append(b, "") }

// AppendApart is AppendJSON without the data, which is stored after it unencoded: in JSON, binary
// data takes a third more space, and text up to six times as much.
func (e *Entry) AppendApart(b []byte) []byte {
	bare := *e
	bare.Change.Event.Data = nil
	return bare.append(b, e.Change.Event.ContentType)
}

// append appends the entry, with the content type of its data if that is stored apart.
func (e *Entry) append(b []byte, contentType string) []byte {
	b = e.Change.AppendJSON(append(b, `{"change":`...))
	b = append(e.MirroredAt.AppendFormat(append(b, `,"mirrored_at":"`...), time.RFC3339Nano), '"')
	if e.DeletedSeq > 0 {
		b = strconv.AppendUint(append(b, `,"deleted_seq":`...), e.DeletedSeq, 10)
	}
	if e.Tombstone() {
		b = append(e.TombstonedAt.AppendFormat(append(b, `,"tombstoned_at":"`...), time.RFC3339Nano), '"')
	}
	if contentType != "" {
		b = sluice.AppendString(append(b, `,"content_type":`...), contentType)
	}
	return append(b, '}')
}

// ParseApart returns the entry that AppendApart has written, with its data. The entry shares the
// memory of data.
func ParseApart(text, data []byte) (Entry, error) {
	var is struct {
		Entry

		ContentType string `json:"content_type"`
	}
	if err := json.Unmarshal(text, &is); err != nil {
		return is.Entry, fmt.Errorf("entry: %w", err)
	}
	is.Change.Event.ContentType, is.Change.Event.Data = cmp.Or(is.ContentType, "application/json"), data
	return is.Entry, nil
}

// entryRoom is the maximum size of the part of a stored entry that is neither data nor attributes.
const entryRoom = 2 << 10

// fits reports whether a change can be stored. The first condition is a bound that costs nothing:
// JSON takes at most six bytes for a byte of an attribute. Only an entry beyond it is encoded to
// know its size.
func (r *Rule) fits(c *sluice.Change) bool {
	if r.Most == 0 || len(c.Event.Data)+6*attributeBytes(&c.Event)+entryRoom <= r.Most {
		return true
	}
	bare := Entry{Change: *c}
	return len(bare.AppendApart(nil))+len(c.Event.Data)+entryRoom <= r.Most
}

// attributeBytes returns the size of an event's attributes.
func attributeBytes(e *sluice.Event) int {
	n := len(e.ID) + len(e.Path) + len(e.Type) + len(e.Source) + len(e.Subject) + len(e.DataSchema) + len(e.ContentType)
	for name, value := range e.Extensions {
		n += len(name) + len(value) + len(`"":"",`)
	}
	return n
}
